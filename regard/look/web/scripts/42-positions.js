// How places are told apart: the codes themselves, how similar two places are, and how that falls with distance.

const positionsShown = { item: 0 };

view("positions", "Positions", (part, place, here) => {
  const figures = make("div", { class: "positions-figures" });
  const sentence = make("p", { class: "sentence" });
  if (positionsShown.item >= part.items.length) positionsShown.item = 0;
  let inner = null;

  async function show() {
    inner?.close();
    const mine = (inner = new Here(here.page));
    const item = part.items[positionsShown.item];
    sentence.textContent = item.sentence;
    const [codes, similarity] = await Promise.all([item.codes, item.similarity].map((each) => (each ? unpackedLevels(each) : null)));
    if (mine.closed || here.closed) return;
    refill(figures,
      codes ? levelsFigure(mine, codes, "Codes", "place ↓ · dimension →", (i, j, value) => `place ${i}, dimension ${j} `, { square: false, highest: 420 }) : null,
      similarity ? levelsFigure(mine, similarity, "Similarity of two places", "place ↓ · place →", (i, j) => `places ${i} and ${j} `, { highest: 420 }) : null,
      item.by_distance?.length ? make("figure", { class: "plain wide" }, make("h3", {}, "Similarity by distance"), linePlot(mine, {
        series: [{ name: "mean similarity", points: item.by_distance.map((value, k) => [k, value]), colour: () => css(ofHead(0)), width: 2, dots: item.by_distance.length <= 40 }],
        x: "distance", y: "similarity", name: "similarity by distance", height: 260, wholeSteps: true }).element) : null);
  }

  here.painters.push(() => inner.repaint());
  here.over.signal.addEventListener("abort", () => inner.close());
  refill(place, make("h2", {}, "How places are told apart"),
    make("div", { class: "controls" }, part.items.length > 1 ? picker("code", part.items.map((item, k) => [k, item.name]), positionsShown.item, (k) => {
      positionsShown.item = Number(k);
      show();
    }) : make("bdi", { class: "name" }, part.items[0].name)), sentence, figures);
  show();
});

// A matrix of levels with its scale and a read-out: around zero in two colours, else in one.
function levelsFigure(inner, levels, title, axes, said, options) {
  const [n, m] = levels.shape;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const around = levels.low < 0 && levels.high > 0;
  const most = Math.max(Math.abs(levels.low), Math.abs(levels.high)) || 1;
  const quiet = () => refill(readout, make("span", { class: "quiet" }, axes));
  const map = heatmap(inner, { n, m, name: title, ...options, told: (i, j) => (i === null ? quiet() : refill(readout, said(i, j), make("strong", {}, three(levels.at(i * m + j))))) });
  const bar = around ? colourBar((t) => diverging(2 * t - 1), [[0, three(-most)], [0.5, "0"], [1, three(most)]], "") : colourBar(sequential, [[0, three(levels.low)], [1, three(levels.high)]], "");
  inner.paint(() => {
    map.show(around ? levels.bytes.map((_, k) => 128 + Math.round((127 * levels.at(k)) / most)) : levels.bytes, around ? divergingPalette() : sequentialPalette());
    bar.paint();
  });
  quiet();
  return make("figure", { class: "plain" }, make("h3", {}, title), readout, map.element, make("div", { class: "legend" }, bar.element));
}
