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
  refill(place, title, make("div", { class: "controls" }, wayChoice), readout, figures);
  show();
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
