// What was looked at, in words and numbers.

view("about", "About", (part, place) => {
  const rows = part.rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(value))));
  refill(place, make("h2", {}, "About"), make("table", { class: "about-table" }, make("tbody", {}, rows)));
});
