// What the model wrote while it was trained.

view("samples", "Samples", (part, place) => {
  const items = part.items.map(({ step, text }) => make("li", {},
    make("p", { class: "step" }, "step ", make("strong", {}, whole(step))),
    make("p", { class: "text" }, make("bdi", {}, text))));
  refill(place, make("h2", {}, "What it wrote"), make("ol", { class: "samples" }, items));
});
