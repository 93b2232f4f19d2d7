// How places are told apart: the codes themselves, how similar two places are, and how that falls with distance.

const positionsShown = { item: 0 };

view("positions", "Positions", (part, place, here) => {
  const figures = make("div", { class: "positions-figures" });
  const sentence = make("p", { class: "sentence" });
  if (positionsShown.item >= part.items.length) positionsShown.item = 0;

  async function show() {
    const inner = here.afresh();
    const item = part.items[positionsShown.item];
    sentence.textContent = item.sentence;
    const known = [item.codes, item.similarity].map((each) => (each ? unpackedLevels(each) : null));
    const [codes, similarity] = await Promise.all(known);
    if (inner.closed) return;
    refill(figures,
      codes ? levelsFigure(inner, codes, {
        title: "Codes", axes: "place ↓ · dimension →", said: (i, j) => `place ${nth(i)}, dimension ${nth(j)} `, square: false,
      }) : null,
      similarity ? levelsFigure(inner, similarity, {
        title: "Similarity of two places", axes: "place ↓ · place →", said: (i, j) => `places ${nth(i)} and ${nth(j)} `, square: true,
      }) : null,
      item.by_distance?.length ? distanceFigure(inner, item.by_distance) : null);
  }

  const names = part.items.map((item, k) => [k, item.name]);
  const which = names.length > 1 ? picker("code", names, positionsShown.item, (k) => {
    positionsShown.item = Number(k);
    show();
  }) : make("bdi", { class: "name" }, part.items[0]?.name ?? "");
  refill(place, make("h2", {}, "How places are told apart"), make("div", { class: "controls" }, which), sentence, figures);
  if (part.items.length) show();
});

// A matrix of levels with its scale and a read-out: around zero in two colours, else in one.
function levelsFigure(inner, levels, { title, axes, said, square }) {
  const [n, m] = levels.shape;
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const around = levels.low < 0 && levels.high > 0;
  const most = reach(Float32Array.from(levels.bytes, (_, k) => levels.at(k)));
  const quiet = () => refill(readout, make("span", { class: "quiet" }, axes));
  const told = (i, j) => (i === null ? quiet() : refill(readout, said(i, j), make("strong", {}, three(levels.at(i * m + j)))));
  const map = heatmap(inner, { n, m, name: title, square, highest: 420, told });
  const bar = around ? changeBar(most, "") : colourBar(sequential, [[0, three(levels.low)], [1, three(levels.high)]], "");
  inner.paint(() => {
    const part = (k) => Math.max(-1, Math.min(1, levels.at(k) / most));
    const signedLevels = () => levels.bytes.map((_, k) => 128 + Math.round(127 * part(k)));
    map.show(around ? signedLevels() : levels.bytes, around ? divergingPalette() : sequentialPalette());
    bar.paint();
  });
  quiet();
  const legend = make("div", { class: "legend" }, bar.element);
  return make("figure", { class: "plain" }, make("h3", {}, title), readout, map.element, legend);
}

function distanceFigure(inner, similarities) {
  const points = similarities.map((value, distance) => [distance, value]);
  const series = [{ name: "mean similarity", points, colour: () => css(ofHead(0)), width: 2, dots: points.length <= 40 }];
  return make("figure", { class: "plain wide" }, make("h3", {}, "Similarity by distance"),
    linePlot(inner, { series, x: "distance", y: "mean similarity", name: "similarity by distance", height: 260 }));
}
