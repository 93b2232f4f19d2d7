// The return of each real episode against the real steps used so far, round by round.

view("returns", "Returns", (part, place, here) => {
  const { rounds, steps: used, end } = part;
  const series = rounds.map(({ name, points }, k) => ({ name, points, colour: () => css(ofHead(k)), dots: true, width: 0 }));
  const means = rounds.map(({ points, mean }) => [points[points.length - 1][0], mean]);
  if (means.length > 1) series.push({ name: "mean of a round", points: means, colour: () => css(ofHead(5)), dots: true, width: 2 });
  const said = end && make("p", { class: "facts" }, `The finished policy: mean return ${three(end.mean)}`,
    end.count ? ` of ${whole(end.count)} fresh episodes` : null, `, learned from ${whole(used)} real steps.`);
  refill(place, make("h2", {}, "Return against real steps"),
    make("p", { class: "sentence" }, "Each dot is an episode in the real environment that the model learned from. In the first round actions are random; in the others the policy acts, which learns only in imagination. The last episode of a round is cut off when the steps of the round are used up."),
    said, linePlot(here, { series, x: "real steps", y: "return", name: "return by real steps", height: 340 }));
});
