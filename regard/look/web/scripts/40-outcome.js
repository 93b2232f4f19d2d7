// What came of a training: what was trained on what, the figure, the curve, examples, and what to do next.

view("outcome", "Outcome", (part, place, here) => {
  const curves = here.page.data.views.find(({ view: name }) => name === "curves");
  refill(place,
    make("p", { class: "outcome-sentence" }, part.sentence),
    part.figures.length ? outcomeFigures(part.figures) : make("p", { class: "sentence" }, "It has not been evaluated yet."),
    part.advice ? make("p", { class: "outcome-advice" }, part.advice) : null,
    make("div", { class: "outcome-columns" },
      curves ? make("section", {}, make("h2", {}, "Training"), lossPlot(curves, here)) : null,
      make("section", {}, make("h2", {}, "What to do next"), outcomeNext(part.next))),
    part.examples ? outcomeExamples(part.examples) : null,
    part.sample ? outcomeSample(part.sample) : null,
    here.page.data.live ? make("p", { class: "outcome-section sentence" }, "The other tabs show one input, which you can change there.") : null);
});

function outcomeFigures(figures) {
  const [{ split, of }] = figures;
  const each = figures.map(({ measure, said }, k) => make("div", { class: k ? "outcome-figure" : "outcome-figure first" },
    make("strong", {}, said), make("span", { class: "quiet" }, measure)));
  return make("div", { class: "outcome-figures" }, each, make("p", { class: "quiet" }, `${split} split${of ? `, ${of}` : ""}`));
}

// Training and validation loss over the same steps.
function lossPlot({ smoothed = [], validation = [], best = null }, here) {
  const ink = (number) => () => css(ofHead(number));
  const series = [
    { name: "training, smoothed", points: smoothed, colour: ink(0), width: 2 },
    { name: "validation", points: validation, colour: ink(5), dots: validation.length <= 60, ringed: best && best.point },
  ];
  return linePlot(here, { series, x: "step", y: "loss", name: "loss by step", height: 240, hint: false, said: lossText });
}

function outcomeNext(commands) {
  if (!commands.length) return make("p", { class: "sentence" }, "A module of your own: load its weights in Python.");
  return make("dl", { class: "outcome-next" }, commands.map(([command, words]) => [
    make("dt", {}, make("code", {}, command)), make("dd", {}, words)]));
}

function outcomeExamples({ split, chosen, items }) {
  const group = (title, kept) => (kept.length ? make("section", {}, make("h3", {}, title), make("ul", { class: "outcome-examples" }, kept.map(outcomeExample))) : null);
  const { classes } = items[0];
  return make("section", { class: "outcome-section" }, make("h2", {}, `Examples of the ${split} split`),
    make("p", { class: "sentence" }, chosen),
    make("div", { class: "outcome-columns" },
      group(classes ? "Right" : "Smallest errors", items.filter(({ right }) => right)),
      group(classes ? "Wrong" : "Largest errors", items.filter(({ right }) => !right))));
}

function outcomeExample({ name, text, picture, truth, predicted, said, right, classes }) {
  const label = (words) => make("bdi", {}, clipped(shown(words), 60));
  const badge = make("span", { class: `badge ${right || !classes ? "plain" : "bad"}` }, label(predicted));
  const target = classes && right ? null : [", ", classes ? "labelled " : "target ", make("strong", {}, label(truth))];
  const told = make("span", { class: "quiet" }, ` ${said}`, target);
  return make("li", {},
    picture ? make("img", { src: safeImage(picture), alt: shown(name), width: 64, height: 64 }) : null,
    make("div", {}, make("p", {}, badge, told),
      text ? make("p", { class: "outcome-text" }, make("bdi", {}, text)) : null,
      make("p", { class: "quiet small" }, make("bdi", {}, shown(name)))));
}

function outcomeSample({ step, text }) {
  return make("section", { class: "outcome-section" }, make("h2", {}, "What it writes"),
    make("p", { class: "sentence" }, `A sample at step ${whole(step)}, after an opening from the validation split.`),
    make("p", { class: "outcome-sample" }, make("bdi", {}, text)));
}
