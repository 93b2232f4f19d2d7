// Which laws hold, and what a group element does to the outputs.

view("laws", "Laws", (part, place, here) => {
  const verdicts = { true: ["good", "Every declared law holds."], false: ["bad", "A declared law is broken."] };
  const verdict = part.error ? ["bad", part.error] : verdicts[part.ok];
  refill(place, verdict || part.rows?.length ? make("h2", {}, "What the model promises, and what it does") : null,
    verdict ? make("p", { class: `verdict ${verdict[0]}` }, verdict[1]) : null,
    part.rows?.length ? make("div", { class: "scroll" }, lawTable(part.rows)) : null,
    part.actions?.length ? actionFigure(part.actions, here) : null);
});

function lawTable(rows) {
  const heads = ["law", "declared", "measured", "error", "tolerance"];
  const head = make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row) => lawRow(row, heads.length));
  return make("table", { class: "law-table" }, make("thead", {}, head), make("tbody", {}, body));
}

// a row, and another one below it with the reason, which the name of the law opens
function lawRow(row, wide) {
  const more = make("tr", { class: "more", hidden: true }, make("td", { colspan: wide }, lawDetails(row)));
  const open = make("button", { type: "button", class: "law", "aria-expanded": "false" }, row.by ? `${row.law} by ${row.by}` : row.law);
  open.addEventListener("click", () => {
    more.hidden = !more.hidden;
    open.setAttribute("aria-expanded", String(!more.hidden));
  });
  const badge = make("span", { class: `badge ${lawColour(row)}` }, row.measured);
  const cells = [
    make("th", { scope: "row" }, open), make("td", {}, row.declared ?? make("span", { class: "quiet" }, "nothing")),
    make("td", {}, badge, make("span", { class: "name" }, lawPlace(row))),
    make("td", { class: "figure" }, three(row.error)), make("td", { class: "figure quiet" }, three(row.tolerance)),
  ];
  return [make("tr", {}, cells), more];
}

function lawColour({ measured, ok }) {
  if (measured === "unknown" || measured === "vacuous") return "unsure";
  if (!ok) return "bad";
  return measured === "holds" ? "good" : "plain";
}

function lawPlace({ layer, exact }) {
  if (layer === null || layer === undefined) return "";
  return ` ${exact === false ? "in " : ""}${layer || "the model itself"}`;
}

function lawDetails({ reason, worst, seconds }) {
  const took = seconds === null || seconds === undefined ? null : `${three(seconds)} s`;
  const facts = [["reason", reason], ["worst case", worst], ["took", took]].filter(([, value]) => value);
  return make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}
