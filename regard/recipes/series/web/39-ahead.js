// How errors grow with the steps ahead, beside simple rivals.

view("ahead", "Error by steps ahead", (part, place, here) => {
  const colours = [5, 2, 7];
  const series = part.rivals.map(({ name, points }, k) => ({ name, points, colour: () => css(ofHead(dark() && k === 2 ? 4 : colours[k])), dots: points.length < 30, width: 2 }));
  const where = part.held ? "the part that was held out" : "the second half of each series";
  const names = part.measures[0][1].map(([name]) => name);
  const row = ([name, measures]) => make("tr", {}, make("th", { scope: "row" }, name), names.map((each) => {
    const found = measures.find(([key]) => key === each);
    return make("td", { class: "figure" }, found ? three(found[1]) : "–");
  }));
  const before = part.season > 1 ? `what was ${whole(part.season)} steps before` : "the last value";
  refill(place, make("h2", {}, "Error by steps ahead"),
    make("p", { class: "sentence" }, `The mean absolute error of the median, of ${whole(part.forecasts)} forecasts from ${where}, in the units of the data. The linear part is the model without its network; seasonal naive says ${before}. MASE divides by the mean change over one season before that part: below 1 is better than saying what was a season ago.`),
    linePlot(here, { series, x: "steps ahead", y: "mean absolute error", name: "mean absolute error by steps ahead", height: 320 }),
    scrolled(make("table", { class: "series-table" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, ""), names.map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, part.measures.map(row)))));
});
