// Which past steps a prediction rests on: how much a head attends to each, and what changes when it is hidden.

view("moments", "Past steps", async (part, place, here) => {
  const episode = here.page.data.views.find(({ view: name }) => name === "episode");
  const heard = here.page.data.views.find(({ view: name }) => name === "attention")?.layers ?? [];
  const [data, hidden] = await Promise.all([unpackedEpisode(episode), unpackedFloats(part.hidden)]);
  if (here.closed) return;
  const heads = part.layers.flatMap((own) => own.heads.map((head, k) => ({
    layer: heard.find((each) => each.layer === own.layer && each.call === own.call), place: k, words: `layer ${nth(own.layer)}, head ${nth(head)}`,
  }))).filter(({ layer }) => layer);
  const table = make("tbody");
  const scale = make("p", { class: "facts" });
  let t = Math.min(episode.count - 1, worldShown.time ?? Math.floor(episode.count / 2));
  if (worldShown.head >= heads.length) worldShown.head = -1;

  async function weightsOf(query) {
    const asked = worldShown.head < 0 ? heads : [heads[worldShown.head]];
    const all = await Promise.all(asked.map(({ layer, place: k }) => Weights.listed(layer, k)));
    return Array.from({ length: part.back + 1 }, (_, back) => {
      if (!all.length || back > query) return null;
      return all.reduce((sum, weights) => sum + (weights.at(query, query - back).value ?? 0), 0) / all.length;
    });
  }

  async function show() {
    const query = t;
    const weights = await weightsOf(query);
    if (here.closed || query !== t) return;
    const effect = (back) => (back === 0 ? null : hidden.numbers[query * part.back + back - 1]);
    const most = Math.max(1e-12, ...Array.from({ length: Math.min(part.back, query) }, (_, k) => effect(k + 1)));
    refill(table, Array.from({ length: Math.min(part.back, query) + 1 }, (_, back) => (
      momentRow(episode, data, query, back, weights[back], effect(back), most))));
    scale.textContent = `For scale: from this step to the next, the observation changes by ${three(changeAfter(episode, data, query))} deviations.`;
    worldShown.time = t;
  }

  const slider = stepSlider("what comes after step", { low: 0, high: episode.count - 1, now: t, shown: nth }, (next) => {
    t = next;
    show();
  });
  const options = [[-1, `mean of all ${heads.length} heads`], ...heads.map(({ words }, k) => [k, words])];
  const headPicker = heads.length ? picker("attention of", options, worldShown.head, (k) => {
    worldShown.head = Number(k);
    show();
  }) : make("p", { class: "facts" }, "Nothing attends in this model; what each step changes was measured all the same.");
  const titles = ["step", episode.drawing ? "seen" : null, heads.length ? "attention" : null, "moves the prediction", ...episode.numbers.map(shown), "action"];
  refill(place, make("h2", {}, "Which moment mattered"),
    make("p", { class: "sentence" }, "To predict what comes after a step, the model looks back. Attention says where a head looks. What a step changes is measured: how far the predicted observation moves, in deviations of the data, if the model does not see that step."),
    make("div", { class: "controls" }, slider.element, headPicker),
    scrolled(make("table", { class: "moments" }, make("thead", {}, make("tr", {}, titles.filter(Boolean).map((title) => make("th", { scope: "col" }, title)))), table)), scale,
    part.layers.length ? distancePlot(here, part) : null);
  show();
  performance.mark("regard:interactive");
});

// How far the observation moves in a step, in deviations of the data; of those numbers that are shown.
function changeAfter({ scale }, { observation }, t) {
  const [now, then] = [observation(t), observation(t + 1)];
  return Math.sqrt(scale.reduce((sum, each, d) => sum + ((then[d] - now[d]) / each) ** 2, 0) / scale.length);
}

function momentRow(episode, data, query, back, weight, effect, most) {
  const step = query - back;
  const track = (title, share, value) => make("td", { "data-title": title }, value === null ? make("span", { class: "quiet" }, "–")
    : make("div", { class: "moment-bar" }, make("span", { class: "track" }, make("span", { class: "fill", style: `width: ${100 * Math.min(1, share)}%` })), make("span", { class: "number" }, three(value))));
  const drawing = worldDrawing(episode.drawing, `step ${nth(step)}`);
  drawing?.element.style.setProperty("--rod", inkReal());
  const observation = data.observation(step);
  drawing?.show(observation);
  return make("tr", {}, make("th", { scope: "row" }, nth(step), make("span", { class: "quiet" }, back ? ` ${whole(back)} back` : " itself")),
    drawing ? make("td", { class: "seen" }, drawing.element) : null,
    weight === null ? null : track("attention", weight, weight), track("moves the prediction", effect / most, effect),
    observation.map((value, d) => make("td", { class: "figure", "data-title": shown(episode.numbers[d]) }, three(value))),
    make("td", { "data-title": "action" }, actionWords(episode.actions, episode.actions.taken[step])));
}

// How far back each head looks, over the whole episode.
function distancePlot(here, { layers }) {
  const series = layers.flatMap(({ layer, heads, by_distance: means }) => heads.map((head, k) => ({
    name: `layer ${nth(layer)}, head ${nth(head)}`, points: means[k].map((value, back) => [back, value]),
    colour: () => css(ofHead(layer * heads.length + k)), dots: true,
  })));
  return make("section", { class: "moment-distance" }, make("h3", {}, "Mean attention by steps back, over the whole episode"),
    linePlot(here, { series, x: "steps back", y: "attention", name: "mean attention by steps back", height: 260 }));
}
