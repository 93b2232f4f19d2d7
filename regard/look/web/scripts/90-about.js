// What was looked at, in words and numbers.

view("about", "About", (part, place) => {
  refill(place, make("h2", {}, "About"), make("table", { class: "about-table" }, make("tbody", {}, part.rows.map(([name, value]) => make("tr", {},
    make("th", { scope: "row" }, name), make("td", {}, String(value)))))));
});
