// Which laws hold, and what a group element does to the outputs.

const lawsShown = { action: 0, element: 0 };

view("laws", "Laws", (part, place, here) => {
  const verdict = part.error ? ["bad", part.error] : part.ok === null || part.ok === undefined ? null
    : part.ok ? ["good", "Every declared law holds."] : ["bad", "A declared law is broken."];
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "What the model promises, and what it does")),
    verdict ? make("p", { class: `verdict ${verdict[0]}` }, verdict[1]) : null,
    part.rows?.length ? make("div", { class: "scroll" }, lawTable(part.rows)) : null,
    part.actions?.length ? actionFigure(part.actions, here) : null);
});

function lawTable(rows) {
  const heads = ["law", "declared", "measured", "error", "tolerance"];
  return make("table", { class: "law-table" }, make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, rows.map((row) => {
      const more = make("tr", { class: "more", hidden: true }, make("td", { colspan: heads.length }, lawDetails(row)));
      const open = make("button", { type: "button", class: "law", "aria-expanded": "false" }, row.law);
      open.addEventListener("click", () => {
        more.hidden = !more.hidden;
        open.setAttribute("aria-expanded", String(!more.hidden));
      });
      const colour = row.measured === "unknown" || row.measured === "vacuous" ? "unsure" : row.ok ? (row.measured === "holds" ? "good" : "plain") : "bad";
      return [make("tr", {}, make("th", { scope: "row" }, open), make("td", {}, row.declared ?? make("span", { class: "quiet" }, "nothing")),
        make("td", {}, make("span", { class: `badge ${colour}` }, row.measured), row.layer === null || row.layer === undefined ? null : make("span", { class: "name" }, ` ${row.exact === false ? "in " : ""}${row.layer || "the model itself"}`)),
        make("td", { class: "figure" }, row.error === null ? "–" : three(row.error)), make("td", { class: "figure quiet" }, row.tolerance === null ? "–" : three(row.tolerance))), more];
    })));
}

function lawDetails(row) {
  const facts = [["reason", row.reason], ["worst case", row.worst], ["took", row.seconds === null || row.seconds === undefined ? null : `${three(row.seconds)} s`]].filter(([, value]) => value);
  return make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function actionFigure(actions, here) {
  const figure = make("div", { class: "action" });
  const sentence = make("p", { class: "sentence" });
  const stepper = make("div", { class: "controls" });
  if (lawsShown.action >= actions.length) Object.assign(lawsShown, { action: 0, element: 0 });
  let inner = null;
  const action = () => actions[lawsShown.action];

  function startAction() {
    const last = action().elements.length - 1;
    lawsShown.element = Math.min(lawsShown.element, last);
    sentence.textContent = action().sentence;
    const said = make("output", { class: "element-name" });
    const range = make("input", { type: "range", min: 0, max: last, step: 1, value: lawsShown.element, "aria-label": "element of the group", oninput: () => to(Number(range.value)) });
    const button = (text, words, by) => make("button", { type: "button", class: "toggle", "aria-label": words, onclick: () => to(lawsShown.element + by) }, text);
    const to = (k) => {
      lawsShown.element = Math.min(last, Math.max(0, k));
      range.value = lawsShown.element;
      said.textContent = action().elements[lawsShown.element].label;
      show();
    };
    refill(stepper, actions.length > 1 ? picker("action", actions.map((each, k) => [k, each.name]), lawsShown.action, (k) => {
      Object.assign(lawsShown, { action: Number(k), element: 0 });
      startAction();
    }) : null, last > 0 ? [button("‹", "previous element", -1), range, button("›", "next element", 1)] : null, said);
    to(lawsShown.element);
  }

  async function show() {
    inner?.close();
    const mine = (inner = new Here(here.page));
    const { order, left, right, n, c, error, holds } = action().elements[lawsShown.element];
    const [low, high] = action().scale;
    const [a, b] = await Promise.all([unpackedOnce(left), unpackedOnce(right)]);
    if (mine.closed || here.closed) return;
    const readout = make("output", { class: "readout short", "aria-live": "polite" });
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    const value = (bytes, k) => low + (bytes[k] / 255) * (high - low);
    const rows = order?.length === n ? order : null;
    const maps = [["f(g x)", "first the change, then the model", a], ["g f(x)", "first the model, then the change", b], ["difference", holds ? "nothing is left" : "what is left", null]];
    const quiet = () => refill(readout, make("span", { class: `badge ${holds ? "good" : "bad"}` }, holds ? "equal" : "not equal"), make("span", { class: "quiet" }, ` largest relative difference ${three(error)}`));
    const drawn = maps.map(([name, said, bytes]) => {
      const at = (k) => (bytes ? value(bytes, k) : value(a, k) - value(b, k));
      const map = heatmap(mine, { n, m: c, rows, name: `${name}: ${said}`, square: false, highest: Math.min(420, 26 * n), told: (i, j) => {
        drawn.forEach((other) => other.map !== map && other.map.mark(i, j ?? null));
        if (i === null) quiet();
        else refill(readout, rows ? token(rows[i], i) : `row ${i}`, `, component ${j}: f(g x) `, make("strong", {}, three(value(a, i * c + j))), ", g f(x) ", make("strong", {}, three(value(b, i * c + j))));
      } });
      mine.paint(() => map.show(Uint8Array.from({ length: n * c }, (_, k) => 128 + Math.round((127 * Math.max(-most, Math.min(most, at(k)))) / most)), divergingPalette()));
      return { map, element: make("figure", { class: "plain" }, make("h3", {}, name), make("p", { class: "quiet" }, said), map.element) };
    });
    const bar = colourBar((t) => diverging(2 * t - 1), [[0, three(-most)], [0.5, "0"], [1, three(most)]], "output");
    mine.paint(bar.paint);
    refill(figure, readout, make("div", { class: "three" }, drawn.map(({ element }) => element)), make("div", { class: "legend" }, bar.element));
    quiet();
  }

  here.painters.push(() => inner.repaint());
  here.over.signal.addEventListener("abort", () => inner.close());
  startAction();
  return make("section", { class: "action-section" }, make("h2", {}, "Apply an element of the group"), sentence, stepper, figure);
}
