// What each input contributes to the prediction, beside what is attended to. Columns have no common unit, so each has its own scale.

const contributionShown = { as: null };

view("contribution", "Contribution", (part, place, here) => showContribution(part, place, here, "What contributes to "));

// Evidence is drawn the same way; its numbers are exact, and sum to the prediction.
view("evidence", "Evidence", (part, place, here) => showContribution(part, place, here, "Evidence for "));

function showContribution(part, place, here, words) {
  const stream = here.page.data.streams[part.stream];
  const labels = shownLabels(stream);
  const figures = make("div");
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const ways = { ...(stream.grid ? { map: contributionMap } : {}), text: contributionText, bars: contributionBars };
  if (!(contributionShown.as in ways)) contributionShown.as = Object.keys(ways)[0];

  function say(k) {
    if (k === null) {
      refill(readout, make("span", { class: "quiet" }, `Point at ${/^[aeiou]/.test(part.thing) ? "an" : "a"} ${part.thing} to read its numbers.`));
      return;
    }
    refill(readout, streamToken(stream, labels[k], k), " ", part.columns.map((column) => make("span", { class: "item" },
      make("span", { class: "quiet" }, `${column.name} `), make("strong", {}, valueWords(column, k)), " ")));
  }

  function show() {
    figures.className = `contribution-figures as-${contributionShown.as}`;
    refill(figures, ways[contributionShown.as](here.afresh(), part.columns, labels, say, stream));
    say(null);
  }

  const wayChoice = choice("how it is shown", Object.keys(ways).map((way) => [way, way]), contributionShown.as, (way) => {
    contributionShown.as = way;
    show();
  });
  const title = make("h2", {}, words, make("bdi", {}, shown(part.answer)));
  refill(place, title, make("div", { class: "controls" }, wayChoice), readout, figures, stream.kind === "text" && part.stream === 0
    && RegionPanel.offered(here, "group") ? spanPanel(here, labels) : null);
  show();
}

// A span of the text, chosen by dragging from its first token to its last, by two clicks, or by their numbers.
function spanPanel(here, labels) {
  const fields = ["first", "last"].map((words) => placeField(`${words} token of the span`, labels.length, () => typed()));
  let [from, to, open] = [null, null, false];  // open: the other end is still to come
  const pieces = labels.map((label, k) => make("span", { class: "piece", "data-place": k }, label));
  const text = make("div", { class: "shaded-text span-text" }, pieces.map((piece, k) => [piece, labels[k].includes("↵") ? make("br") : null]));
  const ends = () => [Math.min(from, to), Math.max(from, to)];
  const panel = new RegionPanel(here, {
    title: "Without a span of the text",
    chosen: () => (from === null ? null : Array.from({ length: ends()[1] - ends()[0] + 1 }, (_, k) => ends()[0] + k)),
    said: (numbers) => `${clipped(numbers.map((k) => labels[k]).join(""), 40)} (${numbers.length > 1 ? "tokens" : "token"} ${numbersInWords(numbers)})`,
    controls: make("span", { class: "places" }, "tokens ", fields[0], " to ", fields[1]),
  });

  // written: what was dragged over is also written into the fields; what is being typed stays as it is
  function mark(written = true) {
    for (const [k, piece] of pieces.entries()) piece.classList.toggle("taken", from !== null && k >= ends()[0] && k <= ends()[1]);
    if (written && from !== null) ends().forEach((k, side) => { fields[side].value = k + 1; });
  }

  function typed() {
    const [a, b] = fields.map(({ value }) => Number(value) - 1);
    const inside = (k) => Number.isInteger(k) && k >= 0 && k < labels.length;
    if (!inside(a) && !inside(b)) return;
    [from, to, open] = [inside(a) ? a : b, inside(b) ? b : a, false];
    mark(false);
  }

  const under = (event) => event.target.closest?.(".piece");
  const placeUnder = (event) => (under(event) ? Number(under(event).dataset.place) : null);
  text.addEventListener("pointerdown", (event) => {
    const k = placeUnder(event);
    if (k === null || event.button > 0) return;
    if (event.pointerType === "mouse") event.preventDefault();  // no selection of letters
    if (open) [to, open] = [k, false];
    else [from, to, open] = [k, k, true];
    mark();
  });
  text.addEventListener("pointerover", (event) => {
    const k = placeUnder(event);
    if (!open || k === null || !(event.buttons & 1) || event.pointerType !== "mouse") return;
    to = k;
    mark();
  });
  text.addEventListener("pointerup", () => {
    if (from !== to) open = false;
  });
  if (here.page.data.live) panel.element.querySelector(".controls").before(text);
  return panel.element;
}

function valueWords(column, k) {
  return column.signed ? signed(column.values[k]) : three(column.values[k]);
}

// The value whose colour is full. What is spread evenly is to look so: it is at least three times the mean. And what
// hardly changes a prediction is to look so, too: it is at least `faint`.
function fullOf({ values, signed: hasSign, faint = 0 }) {
  const known = values.map((value) => value ?? 0);
  const mean = known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length);
  return hasSign ? reach(known, faint) : Math.max(3 * mean, reach(known, faint));
}

// As colours: from −1 to 1, or from 0 to 1.
function shades(column) {
  const full = fullOf(column);
  return column.values.map((value) => Math.max(column.signed ? -1 : 0, Math.min(1, (value ?? 0) / full)));
}

function columnFigure(inner, column, element, { positive, negative }) {
  const full = fullOf(column);
  const colour = (t) => (!column.signed ? positive(t) : t < 0.5 ? negative(1 - 2 * t) : positive(2 * t - 1));
  const stops = column.signed ? [[0, three(-full)], [0.5, "0"], [1, signed(full)]] : [[0, "0"], [1, three(full)]];
  const bar = colourBar(colour, stops, "");
  inner.paint(bar.paint);
  return make("figure", { class: "plain" }, columnHead(column), element, make("div", { class: "legend" }, bar.element));
}

function columnHead(column) {
  return [make("h3", {}, column.name), make("p", { class: "sentence" }, column.sentence)];
}

function contributionText(inner, columns, labels, say) {
  return columns.map((column) => {
    const parts = shades(column);
    const shade = (k) => (column.signed ? diverging(0.75 * parts[k]) : underText(parts[k]));
    const colours = column.signed
      ? { positive: (t) => diverging(0.75 * t), negative: (t) => diverging(-0.75 * t) }
      : { positive: underText };
    return columnFigure(inner, column, shadedText(inner, labels, { name: column.name, told: say, shade }), colours);
  });
}

function contributionMap(inner, columns, labels, say, { grid: { rows, columns: across, before } }) {
  return columns.map((column) => {
    const parts = shades(column).slice(before);
    const told = (i, j) => say(i === null ? null : before + i * across + j);
    const map = heatmap(inner, { n: rows, m: across, name: column.name, highest: 300, told });
    inner.paint(() => map.show(Uint8Array.from(parts, (part) => (column.signed ? 128 + 127 * part : 255 * part)),
      column.signed ? divergingPalette() : sequentialPalette()));
    const colours = column.signed ? { positive: diverging, negative: (t) => diverging(-t) } : { positive: sequential };
    return columnFigure(inner, column, map.element, colours);
  });
}

function contributionBars(inner, columns, labels, say, stream) {
  const fills = [];  // [element, its colour]
  const scaled = columns.map((column) => [column, Math.max(1e-30, ...column.values.map((value) => Math.abs(value ?? 0)))]);
  const cell = ([column, most], k) => {
    const value = column.values[k] ?? 0;
    const size = Math.abs(value) / most;
    const [left, width] = column.signed ? [value < 0 ? 50 - 50 * size : 50, 50 * size] : [0, 100 * size];
    const fill = make("span", { class: "fill", style: `left: ${left}%; width: ${width}%` });
    fills.push([fill, () => (column.signed ? diverging(value < 0 ? -0.8 : 0.8) : sequential(0.6))]);
    return make("td", {}, make("span", { class: column.signed ? "track signed" : "track" }, fill),
      make("span", { class: "number" }, valueWords(column, k)));
  };
  const rows = labels.map((label, k) => make("tr", { onpointerenter: () => say(k) },
    make("th", { scope: "row" }, streamToken(stream, label, k)), scaled.map((each) => cell(each, k))));
  inner.paint(() => fills.forEach(([fill, colour]) => {
    fill.style.background = css(colour());
  }));
  const head = make("tr", {}, make("td"), columns.map((column) => make("th", { scope: "col" }, columnHead(column))));
  const table = make("table", { class: "contributions" }, make("thead", {}, head), make("tbody", {}, rows));
  return scrolled(table);
}
