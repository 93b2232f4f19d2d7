// What the model wrote while it was trained.

view("samples", "Samples", (part, place) => {
  refill(place, make("h2", {}, "What it wrote"), make("ol", { class: "samples" }, part.items.map(({ step, text }) => make("li", {},
    make("p", { class: "step" }, "step ", make("strong", {}, whole(step))), make("p", { class: "text" }, make("bdi", {}, text))))));
});
