// What the model predicts.

view("classes", "Classes", (part, place, here) => {
  const { page } = here;
  const named = (label) => make("bdi", {}, shown(label));
  refill(place, make("div", { class: "measured" }, make("h2", {}, "What the model takes it for"),
    page.data.input?.views ? make("p", { class: "sentence" }, `The mean of ${page.data.input.views} of the image, as regard predict gives it.`) : null,
    make("div", { class: "controls" }, page.before ? page.asked.compareButton() : null),
    bars(part.likely, { named, before: page.partBefore?.likely ?? null, marked: part.likely[0]?.[0] })));
});
