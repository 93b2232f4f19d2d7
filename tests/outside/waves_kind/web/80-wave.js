// A wave as a row of numbers.

view("wave", "Wave", (part, place) => {
  refill(place, make("h2", {}, "The wave"), make("p", { class: "wave-numbers" }, part.values.map((value) => value.toFixed(2)).join(" ")));
});
