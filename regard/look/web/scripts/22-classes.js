// What it is taken for.

view("classes", "Classes", (part, place, here) => {
  const { page } = here;
  const named = (label) => make("bdi", {}, shown(label));
  refill(place, make("div", { class: "measured" }, make("h2", {}, "What the model takes it for"),
    make("div", { class: "controls" }, page.before ? page.asked.compareButton() : null),
    bars(part.likely, { named, before: page.partBefore?.likely ?? null, marked: part.likely[0]?.[0] })));
});
