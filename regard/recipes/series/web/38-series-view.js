// A series with what the model says of it, what each moment of the past contributes, and what is attended to.

const FINEST_VALUE = 1000;  // a value is asked for in thousandths of a deviation
// what is open: the channel that is explained, steps ahead (0: all), the step that is pointed at and held
const seriesShown = { channel: 0, ahead: 0, held: null };

view("series", "Series", async (part, place, here) => {
  const effects = part.effects ? await unpackedFloats(part.effects) : null;
  if (here.closed) return;
  if (seriesShown.channel >= part.channels.length) seriesShown.channel = 0;
  if (seriesShown.ahead > part.ahead) seriesShown.ahead = 0;
  const figure = make("div", {});

  function show() {
    refill(figure, ...seriesFigure(here.afresh(), part, effects, (changes) => {
      Object.assign(seriesShown, changes);
      show();
    }));
  }

  refill(place, make("h2", {}, { forecast: "What comes", fill: "What is missing", classify: "The series" }[part.task]),
    make("p", { class: "sentence" }, seriesWords(part)),
    make("div", { class: "controls" }, seriesPicker(part, here), momentPicker(part, here)), figure);
  show();
  performance.mark("regard:interactive");
});

function seriesWords({ task, count, ahead, channels, of, quantiles, held, origin, season }) {
  const some = channels.length < of ? ` Of ${whole(of)} channels, ${channels.length} are shown.` : "";
  if (task === "classify") return `The model read ${whole(count)} steps.${some}`;
  const band = `${percent(quantiles[quantiles.length - 1] - quantiles[0])} of what ${task === "forecast" ? "comes" : "is missing"} should lie in the widest band.`;
  if (task === "fill") return `The model read ${whole(count)} steps, and says what those without a value were. ${band}${some}`;
  const learned = held === null ? "" : origin >= held ? " It did not learn from what came." : " It learned from this part.";
  const seasons = season > 1 ? ` Dotted grey: the same moment ${whole(season)} steps earlier, the seasonal naive forecast.` : " Dotted grey: the last value, the naive forecast.";
  return `From ${whole(count)} steps the model says the next ${whole(ahead)}. ${band}${learned}${seasons}${some}`;
}

function seriesPicker(part, { page }) {
  if (!page.data.live || !offers(page.data.live, "series") || part.series.length < 2) return null;
  return picker("series", part.series.map((name, k) => [k, name]), part.number, (k) => {
    Object.assign(seriesShown, { held: null });
    page.asked.change({ series: Number(k), origin: null, values: null });
  });
}

// On a served page: a forecast from another moment.
function momentPicker(part, { page }) {
  if (part.task !== "forecast" || !page.data.live || !offers(page.data.live, "origin")) return null;
  const output = make("output", {}, part.times[part.count - 1]);
  const input = make("input", { type: "range", min: Math.min(2, part.length), max: part.length, step: 1, value: part.origin, "aria-valuetext": part.times[part.count - 1] });
  input.addEventListener("input", () => {
    output.textContent = `step ${whole(Number(input.value))}`;
  });
  input.addEventListener("change", () => {
    seriesShown.held = null;
    page.asked.change({ origin: Number(input.value), values: null });
  });
  return make("label", { class: "slider series-slider" }, make("span", {}, "forecast after"), input, output);
}

function seriesFigure(here, part, effects, put) {
  const { count: n, places, channels } = part;
  const word = new Map(places.map((place, k) => [place, part.times[k].replace("T", " ").replace(/:00$/, "")]));
  const times = (place) => (word.get(place) ?? "").replace(" 00:00", "");
  const plots = [];
  let held = seriesShown.held !== null && seriesShown.held < n ? seriesShown.held : null;
  const pointed = (place, hold = false) => {
    const step = places.indexOf(place);
    if (hold && step < n) {
      held = seriesShown.held = step;
      editor?.show(step);
    }
    for (const plot of plots) plot.mark(place);
    readout.textContent = times(place);
  };
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const editor = valueEditor(here, part);
  const how = { places, times, pointed, marks: part.task === "forecast" ? [places[n - 1]] : [] };
  for (let c = 0; c < channels.length; c++) plots.push(seriesPlot(here, { ...how, ...channelCurves(part, c), name: shown(channels[c]) }));
  const main = plots.map(({ element }) => element);
  const reasons = seriesReasons(here, part, effects, how, plots, put);
  if (held !== null) {
    editor?.show(held);
    for (const plot of plots) plot.mark(places[held]);
  }
  return [make("div", { class: "series-curves" }, main), readout, editor?.element, ...reasons];
}

function channelCurves(part, c) {
  const { count: n, places, quantiles, task } = part;
  const [values, read] = [seriesNumbers(part.values), seriesNumbers(part.read)];
  const past = Array.from({ length: n }, (_, t) => [places[t], values(t, c)]);
  const changed = part.changes.some(([, channel]) => channel === c);
  const lines = [{ name: { forecast: "past", fill: "known", classify: "value" }[task], points: past, colour: inkPast, dashed: changed }];
  if (changed) lines.push({ name: "as you changed it", points: Array.from({ length: n }, (_, t) => [places[t], read(t, c)]), colour: inkPast });
  if (!part.answer) return { lines };
  const answer = seriesNumbers(part.answer);
  const gap = (t) => task === "forecast" || values(t, c) === null;
  const rows = task === "forecast" ? part.ahead : n;
  const at = (k) => places[task === "forecast" ? n + k : k];
  const each = (q) => Array.from({ length: rows }, (_, k) => [at(k), gap(k) ? answer(k, q, c) : null]);
  const middle = quantiles.indexOf(0.5);
  const bands = Array.from({ length: Math.floor(quantiles.length / 2) }, (_, k) => ({
    name: `${percent(quantiles[quantiles.length - 1 - k] - quantiles[k])} band`, colour: inkAhead, opacity: 0.16,
    points: each(k).map(([x, low], i) => [x, low, each(quantiles.length - 1 - k)[i][1]]),
  }));
  if (part.naive) {
    const naive = seriesNumbers(part.naive);
    lines.push({ name: part.season > 1 ? "seasonal naive" : "naive", points: Array.from({ length: rows }, (_, k) => [at(k), naive(k, c)]), colour: () => "var(--muted)", dashed: true, width: 1.2 });
  }
  if (part.truth?.length) lines.push({ name: "what came", points: part.truth.map((row) => [row[0], row[1 + c]]), colour: () => "var(--ink)", width: 1.3 });
  lines.push({ name: "median", points: each(middle), colour: inkAhead, width: 2.2, dots: task === "fill" });
  return { lines, bands };
}

// What each moment of the past contributes, and what is attended to.
function seriesReasons(here, part, effects, how, plots, put) {
  const { count: n, places, attention, channels, task } = part;
  const found = [];
  if (effects) {
    const [, ahead = 1, wide = 1] = effects.shape;
    const { channel, ahead: asked } = seriesShown;
    const at = (t, h, c) => effects.numbers[(t * ahead + h) * wide + c];
    const mean = (t) => Array.from({ length: ahead }, (_, h) => Math.abs(at(t, h, channel))).reduce((a, b) => a + b, 0) / ahead;
    const one = (t) => (task === "classify" ? effects.numbers[t] : asked === 0 ? mean(t) : at(t, asked - 1, channel));
    const plot = seriesPlot(here, {
      ...how, places: places.slice(0, n), name: task === "classify" ? `adds to ${part.adds ?? "the log-odds"}` : "moves the forecast, in deviations", height: 130,
      bars: [{ name: "", points: Array.from({ length: n }, (_, t) => [places[t], one(t)]), colour: inkPast }],
    });
    plots.push(plot);
    const pickers = task === "classify" ? null : make("div", { class: "controls" },
      channels.length > 1 ? picker("of", channels.map((name, k) => [k, shown(name)]), channel, (k) => put({ channel: Number(k) })) : null,
      picker("steps ahead", [[0, "all, how far"], ...Array.from({ length: part.ahead }, (_, k) => [k + 1, `${whole(k + 1)}, up or down`])], asked, (k) => put({ ahead: Number(k) })));
    const words = task === "classify" ? `Measured: how far ${part.adds ?? "the log-odds of the predicted class"} drop${part.adds ? "s" : ""} if the step is missing.`
      : "Measured: how the median changes if the model does not know the step. Of one step ahead, a bar above the line means that the forecast is higher because of it.";
    found.push(make("section", { class: "series-reasons" }, make("h3", {}, "What each moment contributes"), make("p", { class: "sentence" }, words), pickers, plot.element));
  }
  if (attention.length) {
    const layers = attention.map(({ layer, weights }) => ({
      name: `layer ${nth(layer)}`, colour: () => css(ofHead(2 * layer)),
      points: Array.from({ length: n }, (_, t) => [places[t], weights.reduce((sum, row) => sum + row[t], 0) / weights.length]),
    }));
    const plot = seriesPlot(here, { ...how, places: places.slice(0, n), name: "attention", height: 130, lines: layers, said: percent });
    plots.push(plot);
    const who = { classify: "Where all steps look", fill: "Where steps with gaps look", forecast: "Where the last step looks" }[task];
    found.push(make("section", { class: "series-reasons" }, make("h3", {}, task === "forecast" ? "Attention over the past" : "Attention over the steps"),
      make("p", { class: "sentence" }, `${who}: the mean over the heads of each layer. The tab Attention has each head.`), plot.element));
  }
  return found;
}

// On a served page: another value at the step that was clicked.
function valueEditor(here, part) {
  const { page } = here;
  if (!page.data.live || !offers(page.data.live, "values")) return null;
  const read = seriesNumbers(part.read);
  const words = make("span", {});
  const rows = make("span", { class: "series-inputs" });
  const back = part.changes.length ? make("button", { type: "button", class: "toggle", onclick: () => ask([]) },
    `take back ${part.changes.length === 1 ? "the change" : `all ${part.changes.length} changes`}`) : null;
  const element = make("div", { class: "series-editor controls", role: "group", "aria-label": "change a value" }, words, rows, back);
  const ask = (changes) => page.asked.change({ values: changes.length ? changes.flat() : null });
  words.textContent = "Click a step of the past to change its value.";

  function change(step, channel, value) {
    const others = part.changes.filter(([t, c]) => t !== step || c !== channel);
    const limit = 100 * FINEST_VALUE;
    const deviations = Math.round(FINEST_VALUE * (value - part.centre[channel]) / part.deviation[channel]);
    seriesShown.held = step;
    ask([...others, [step, channel, Math.max(-limit, Math.min(limit, deviations))]]);
  }

  return {
    element,
    show(step) {
      words.textContent = `${part.times[step].replace("T", " ")}:`;
      refill(rows, part.channels.map((name, c) => {
        const now = read(step, c);
        const input = make("input", { type: "number", step: "any", value: now === null ? "" : now, "aria-label": `${shown(name)} at this step` });
        input.addEventListener("change", () => input.value !== "" && change(step, c, Number(input.value)));
        return make("label", {}, make("span", {}, shown(name)), input);
      }));
    },
  };
}
