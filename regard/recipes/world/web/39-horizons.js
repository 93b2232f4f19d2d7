// How far predictions drift with each step that they are fed back, beside two simple rivals.

view("horizons", "Error by horizon", (part, place, here) => {
  const colours = [5, 2, 7];
  const series = part.rivals.map(({ name, points }, k) => ({ name, points, colour: () => css(ofHead(dark() && k === 2 ? 4 : colours[k])), dots: true, width: 2 }));
  const many = `${whole(part.episodes)} episode${part.episodes === 1 ? "" : "s"}`;
  const where = many + ({ "held out": ", held out of training,", "learned from": " that it learned from" }[part.origin] ?? "");
  const horizons = part.rivals[0].points.map(([k]) => k);
  const row = ({ name, points }) => make("tr", {}, make("th", { scope: "row" }, name), points.map(([, error]) => make("td", { class: "figure" }, three(error))));
  refill(place, make("h2", {}, "Error after k steps"),
    make("p", { class: "sentence" }, `The model goes on from real steps of ${where} with the actions that were taken and sees only its own predictions; from at most ${whole(part.moments)} moments for each k. The root of the mean squared error is in deviations of the data: 1 is as bad as always saying the mean. The linear map is fed back in the same way; no change says that everything stays as it is.`),
    linePlot(here, { series, x: "steps ahead", y: "error", name: "error by steps ahead", height: 340, logarithmic: true }),
    scrolled(make("table", { class: "world-table" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "k"), horizons.map((k) => make("th", { scope: "col" }, whole(k))))),
      make("tbody", {}, part.rivals.map(row)))));
});
