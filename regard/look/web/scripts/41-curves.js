// How a training went: loss at each step, smoothed and on the validation split, and what else was measured.

const curvesShown = { scale: "linear" };

view("curves", "Curves", (part, place, here) => {
  const figures = make("div", { class: "curves-figures" });
  const { training = [], smoothed = [], validation = [], measures = {}, best = null } = part;
  const ink = (number) => () => css(ofHead(number));
  // one axis for all plots: a step is at the same place in each
  const all = [training, smoothed, validation, ...Object.values(measures)].flatMap((points) => points.map(([step]) => step));
  const reach = all.length ? [Math.min(...all), Math.max(...all)] : null;
  const few = (points) => points.length <= 60;
  const losses = [
    { name: "each step", points: training, colour: ink(0), width: 1, faint: true },
    { name: "smoothed", points: smoothed, colour: ink(0), width: 2.2 },
    { name: "validation", points: validation, colour: ink(5), dots: few(validation), ringed: best && best.point },
  ];

  function show() {
    const inner = here.afresh();
    const logarithmic = curvesShown.scale === "logarithmic";
    const main = linePlot(inner, { series: losses, x: "step", y: "loss", name: "loss by step", height: 360, logarithmic, said: lossText, reach });
    const others = Object.entries(measures).map(([name, points], k) => linePlot(inner, {
      series: [{ name, points, colour: ink(k + 2), width: 2, dots: few(points) }],
      x: "step", y: name, name: `${name} by step`, height: 220, hint: false, said: (value) => valueText(name, value), reach,
    }));
    refill(figures, main, others.length ? make("div", { class: "small-plots" }, others) : null);
  }

  const scale = choice("scale of the loss", ["linear", "logarithmic"].map((name) => [name, name]), curvesShown.scale, (name) => {
    curvesShown.scale = name;
    show();
  });
  const found = best ? make("p", { class: "facts" }, `${best.which} validation ${best.said} at step ${whole(best.point[0])}`) : null;
  const title = make("div", { class: "title-line" }, make("h2", {}, "Training"), found);
  refill(place, title, make("div", { class: "controls" }, scale), figures);
  show();
});
