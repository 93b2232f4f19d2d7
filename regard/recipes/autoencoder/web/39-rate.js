// Rate and distortion, and the part that each dimension of a code has in the rate.

view("rate", (part) => (part.variational ? "Rate and distortion" : "Dimensions"), (part, place, here) => {
  const { rate, distortion, active, latent, numbers } = part;
  const figures = [
    rate === null ? null : ["rate: KL", number(rate, 4), "nats an input"],
    ["distortion: −log p(x|z)", number(distortion, 4), "nats an input"],
    rate === null ? null : ["ELBO", number(-rate - distortion, 4), "nats an input"],
    rate === null ? null : ["−ELBO", number((rate + distortion) / (numbers * Math.LN2), 3), "bits a number"],
    ["active units", `${active} of ${latent}`, "variance of the mean above 0.01"],
  ].filter(Boolean);
  refill(place, make("div", { class: "title-line" }, make("h2", {}, titleOf(part)), make("p", { class: "facts" }, `${whole(part.of)} inputs of the ${part.split} split`)),
    make("p", { class: "sentence" }, rateWords(part)),
    make("dl", { class: "rate-figures" }, figures.map(([name, said, unit]) => make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, said), ` ${unit}`)))),
    make("div", { class: "outcome-columns" }, dimensionBars(part), part.steps.length ? rateBySteps(part.steps, here) : null));
  performance.mark("regard:interactive");
});

function rateWords({ variational, likelihood, beta }) {
  const density = likelihood === "bernoulli" || likelihood === "discretised" ? "" : " A density may exceed 1, so the distortion may be negative.";
  if (!variational) return `The codes have no variance, so they have no rate; the distortion is what is lost.${density}`;
  const weight = beta === null || beta === 1 ? "" : ` The training weighs the rate by β = ${three(beta)}; the ELBO here does not.`;
  return `The rate is what the code costs, the distortion what it loses: −ELBO is their sum.${weight}${density}`;
}

// KL by dimension, or without a KL the variance of codes.
function dimensionBars({ dimensions, variational, latent }) {
  const value = ({ kl, variance }) => Math.max(0, (variational ? kl : variance) ?? 0);
  const most = Math.max(1e-9, ...dimensions.map(value));
  const rows = dimensions.map((each) => make("div", { class: each.active ? "bar-row" : "bar-row unused", role: "listitem" },
    make("span", { class: "bar-label" }, `z${each.number + 1}`),
    make("span", { class: "tracks" }, make("span", { class: "track" }, make("span", { class: "fill", style: `width: ${(100 * value(each)) / most}%` }))),
    make("span", { class: "bar-figure" }, three(value(each)), each.active ? null : make("span", { class: "quiet" }, "not used"))));
  const rest = latent - dimensions.length;
  const more = rest > 0 ? make("p", { class: "sentence" }, `${whole(rest)} more are at most ${three(value(dimensions.at(-1)))}.`) : null;
  return make("section", {}, make("h2", {}, variational ? "KL by dimension, in nats" : "Variance by dimension"), make("div", { class: "bars", role: "list" }, rows), more);
}

function rateBySteps(steps, here) {
  const ink = (k) => () => css(ofHead(k));
  const points = (i) => steps.map((each) => [each[0], each[i]]);
  const dots = steps.length <= 60;
  const one = (name, i) => linePlot(here, { series: [{ name, points: points(i), colour: ink(i), width: 2, dots }], x: "step", y: `${name}, in nats`, name: `${name} by step`, height: 190, hint: false });
  return make("section", {}, make("h2", {}, "On the validation split, while it was trained"), one("rate", 1), one("distortion", 2));
}
