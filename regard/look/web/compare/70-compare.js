// Runs beside each other: outcomes, differences with their intervals, curves over one axis, settings that differ.

const comparedBy = { axis: null, scale: "linear", training: false };

view("compare", "Comparison", (part, place, here) => {
  comparedBy.axis ??= part.by;
  const name = (k) => [make("span", { class: "dot", style: `--colour: ${css(ofHead(k))}` }), make("bdi", {}, shown(part.runs[k].name))];
  refill(place, outcomesOf(part, name), differencesOf(part), curvesOf(part, here), settingsOf(part, name));
});

function section(title, ...children) {
  return make("section", { class: "compared" }, make("h2", {}, title), children);
}

function table(heads, rows) {
  const head = make("tr", {}, heads.map((words) => make("th", { scope: "col" }, words)));
  const body = rows.map((cells) => make("tr", {}, cells.map((cell, k) => (
    make(k ? "td" : "th", { scope: k ? null : "row", "data-head": k && typeof heads[k] === "string" ? heads[k] : null }, cell)))));
  return make("table", { class: "compared-table" }, make("thead", {}, head), make("tbody", {}, body));
}

function outcomesOf({ runs }, name) {
  const rows = runs.map((run, k) => [name(k), run.outcome, run.kept === null ? "–" : `step ${whole(run.kept)}`, run.state ?? ""]);
  const odd = runs.some(({ state }) => state);
  const cut = (cells) => (odd ? cells : cells.slice(0, 3));
  return section("Outcomes", scrolled(table(cut(["run", "outcome", "weights of", "state"]), rows.map(cut))));
}

function differencesOf({ pairs, sentences }) {
  const found = pairs.flatMap((pair) => pair.differences.map((each) => ({ ...each, pair })));
  const rows = found.map((each) => [
    [make("bdi", {}, shown(each.pair.run)), " − ", make("bdi", {}, shown(each.pair.against))],
    each.measure,
    [make("strong", {}, each.said.replace("-", "−")), " ", intervalBar(each, found.filter(({ measure }) => measure === each.measure))],
    each.interval.replaceAll("-", "−"),
    each.examples,
    make("span", { class: `badge ${each.better === null ? "plain" : each.better ? "good" : "bad"}` }, each.verdict.split(";")[0]),
    each.verdict.split(";")[1]?.trim() ?? "",
  ]);
  const reasons = pairs.filter(({ reason }) => reason).map(({ run, reason }) => make("p", { class: "reason" }, make("bdi", {}, shown(run)), `: ${reason}.`));
  const heads = ["difference", "measure", "value", "95 % interval", "examples", "verdict", "predictions"];
  const last = rows.some((cells) => cells[6]) ? 7 : 6;  // accuracies alone have examples on which only one is right
  const cut = (cells) => cells.slice(0, last);
  return section("On the same examples", rows.length ? scrolled(table(cut(heads), rows.map(cut))) : null,
    sentences.map((words) => make("p", { class: "sentence" }, words)), reasons);
}

// The interval on a scale that all rows of a measure share, with a line at no difference.
function intervalBar({ value, low, high }, alike) {
  if (low === null) return null;
  const most = Math.max(...alike.flatMap((each) => [each.low, each.high]).map(Math.abs)) || 1;
  const across = (x) => 50 + 46 * (x / most);
  return make("span", { class: "interval", "aria-hidden": "true" },
    make("span", { class: "zero" }),
    make("span", { class: "reach", style: `left: ${across(low)}%; width: ${across(high) - across(low)}%` }),
    make("span", { class: "value", style: `left: ${across(value)}%` }));
}

function curvesOf({ runs }, here) {
  const figure = make("div", { class: "curves-figures" });
  const choices = make("div", { class: "controls" });
  const show = () => {
    const inner = here.afresh();
    const at = comparedBy.axis === "seconds" ? 1 : 0;
    const drawn = (points) => points.map((point) => [point[at], point[2]]);
    const series = runs.flatMap((run, k) => [
      { name: run.name, points: drawn(run.validation), colour: () => css(ofHead(k)), width: 2, dots: run.validation.length <= 40,
        ringed: run.best ? drawn([run.best])[0] : null },
      comparedBy.training ? { name: `${run.name}, training`, points: drawn(run.training), colour: () => css(ofHead(k)), width: 1.2, faint: true } : null,
    ]).filter((each) => each !== null);
    refill(figure, linePlot(inner, {
      series, x: at ? "second" : "step", y: "validation loss", name: `validation loss by ${comparedBy.axis}`, height: 360,
      logarithmic: comparedBy.scale === "logarithmic", said: lossText,
    }));
  };
  const pick = (words, options, field) => choice(words, options.map((each) => [each, each]), comparedBy[field], (value) => {
    comparedBy[field] = value;
    show();
  });
  refill(choices, pick("axis", ["steps", "seconds"], "axis"), pick("scale of the loss", ["linear", "logarithmic"], "scale"),
    toggle("training loss", comparedBy.training, (on) => {
      comparedBy.training = on;
      show();
    }));
  show();
  const words = "A ring marks the evaluation whose weights were kept. Losses of different data, tokens or smoothing have no common scale.";
  return section("Curves", choices, figure, make("p", { class: "sentence" }, words));
}

function settingsOf({ runs, settings, partly }, name) {
  const others = partly ? make("p", { class: "sentence" }, partly) : null;
  if (!settings.length) return section("Settings", make("p", { class: "sentence" }, "All settings are the same."), others);
  const rows = settings.map(([words, values]) => [make("span", { class: "name" }, words), ...values.map((value) => make("bdi", {}, value))]);
  return section("Settings that differ", scrolled(table(["setting", ...runs.map((_, k) => name(k))], rows)), others);
}
