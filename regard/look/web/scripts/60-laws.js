// Which laws hold, and what a group element does to the outputs.

view("laws", "Laws", (part, place, here) => {
  const verdict = part.error ? ["bad", part.error] : part.verdict && part.ok !== null ? [part.ok ? "good" : "bad", part.verdict] : null;
  refill(place, verdict || part.rows?.length ? make("h2", {}, "What the model promises, and what it does") : null,
    verdict ? make("p", { class: `verdict ${verdict[0]}` }, verdict[1]) : null,
    part.rows?.length ? lawTable(part.rows) : null,
    (part.words ?? []).map((line) => make("p", { class: "sentence" }, capital(`${line}.`))),
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
  const badge = make("span", { class: `badge ${lawColour(row)}` }, lawWords(row));
  const cells = [
    make("th", { scope: "row" }, open),
    make("td", { "data-head": "declared" }, row.declared ?? make("span", { class: "quiet" }, "nothing")),
    make("td", { "data-head": "measured" }, badge, row.place ? [" ", make("span", { class: "name" }, row.place)] : null),
    make("td", { class: "figure", "data-head": "error" }, three(typeof row.error === "string" ? Infinity : row.error)),
    make("td", { class: "figure quiet", "data-head": "tolerance" }, three(row.tolerance)),
  ];
  return [make("tr", {}, cells), more];
}

function lawColour({ measured, ok }) {
  if (measured === "unknown" || measured === "vacuous") return "unsure";
  if (!ok) return "bad";
  return measured === "holds" ? "good" : "plain";
}

// a law that is broken and was declared so is no surprise
function lawWords({ declared, measured }) {
  return declared === "broken" && measured === "broken" ? "broken, as declared" : measured;
}

function lawDetails({ reason, worst, seconds }) {
  const took = seconds === null || seconds === undefined ? null : `${three(seconds)} s`;
  const facts = [["reason", reason], ["worst case", worst], ["took", took]].filter(([, value]) => value);
  return make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}
