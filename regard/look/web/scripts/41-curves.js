// How a training went: loss at each step, smoothed and on the validation split, and what else was measured.

const curvesShown = { logarithmic: false };

view("curves", "Curves", (part, place, here) => {
  const figures = make("div", { class: "curves-figures" });
  const best = (part.validation ?? []).reduce((a, b) => (a === null || b[1] < a[1] ? b : a), null);
  let inner = null;
  const ink = (number) => () => css(ofHead(number));
  const losses = () => [
    { name: "each step", points: part.training ?? [], colour: ink(0), width: 1, faint: true },
    { name: "smoothed", points: part.smoothed ?? [], colour: ink(0), width: 2.2 },
    { name: "validation", points: part.validation ?? [], colour: ink(5), width: 1.8, dots: (part.validation ?? []).length <= 60, ringed: best },
  ].filter(({ points }) => points.length);

  function show() {
    inner?.close();
    inner = new Here(here.page);
    const main = linePlot(inner, { series: losses(), x: "step", y: "loss", name: "loss by step", height: 360, logarithmic: curvesShown.logarithmic, wholeSteps: true });
    const others = Object.entries(part.measures ?? {}).map(([name, points], k) => linePlot(inner, { series: [{ name, points, colour: ink(k + 2), width: 2, dots: points.length <= 60 }], x: "step", y: name, name: `${name} by step`, height: 220, wholeSteps: true }).element);
    refill(figures, main.element, others.length ? make("div", { class: "small-plots" }, others) : null);
  }

  here.painters.push(() => inner.repaint());
  here.over.signal.addEventListener("abort", () => inner.close());
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "Training"), best ? make("p", { class: "facts" }, `best validation loss ${three(best[1])} at step ${whole(best[0])}`) : null),
    make("div", { class: "controls" }, choice("scale of the loss", [["plain", "linear"], ["logarithmic", "logarithmic"]], curvesShown.logarithmic ? "logarithmic" : "plain", (scale) => {
      curvesShown.logarithmic = scale === "logarithmic";
      show();
    })), figures);
  show();
});
