// What each input contributes to the answer, beside what is attended to. Columns have no common unit, so each has its own scale.

const contributionShown = { as: null };

view("contribution", "Contribution", (part, place, here) => {
  const stream = here.page.data.streams[part.stream];
  const figures = make("div", { class: "contribution-figures" });
  const readout = make("output", { class: "readout", "aria-live": "polite" });
  const options = [...(stream.grid ? [["map", "map"]] : []), ["text", "text"], ["bars", "bars"]];
  const ways = { map: contributionMap, text: contributionText, bars: contributionBars };
  if (!options.some(([name]) => name === contributionShown.as)) contributionShown.as = options[0][0];
  let inner = null;

  function say(k) {
    refill(readout, k === null ? make("span", { class: "quiet" }, "Point at a token to read its numbers.") : [token(stream.labels[k], k), " ",
      part.columns.map((column) => make("span", { class: "item" }, make("span", { class: "quiet" }, `${column.name} `), make("strong", {}, column.signed ? signed(column.values[k]) : three(column.values[k])), " "))]);
  }

  function show() {
    inner?.close();
    inner = new Here(here.page);
    figures.className = `contribution-figures as-${contributionShown.as}`;
    refill(figures, ways[contributionShown.as](inner, part, stream, say));
    say(null);
  }

  here.painters.push(() => inner.repaint());
  here.over.signal.addEventListener("abort", () => inner.close());
  refill(place, make("div", { class: "title-line" }, make("h2", {}, "What contributes to ", words(part.answer))),
    make("div", { class: "controls" }, choice("how it is shown", options, contributionShown.as, (as) => {
      contributionShown.as = as;
      show();
    })), readout, figures);
  show();
});

// from −1 to 1, or from 0 to 1
function relative(column) {
  const most = Math.max(1e-30, ...column.values.map((value) => Math.abs(value ?? 0)));
  return column.values.map((value) => (value ?? 0) / most);
}

function columnHead(column) {
  return [make("h3", {}, column.name), make("p", { class: "sentence" }, column.sentence)];
}

function contributionText(inner, part, stream, say) {
  return part.columns.map((column) => {
    const parts = relative(column);
    const text = shadedText(inner, stream.labels, { name: column.name, told: say, shade: (k) => (column.signed ? diverging(0.75 * parts[k]) : sequential(0.62 * Math.max(0, parts[k]))) });
    return make("figure", { class: "plain" }, columnHead(column), text.element);
  });
}

function contributionMap(inner, part, stream, say) {
  const { rows, columns, before } = stream.grid;
  return part.columns.map((column) => {
    const parts = relative(column);
    const map = heatmap(inner, { n: rows, m: columns, name: column.name, highest: 300, told: (i, j) => say(i === null ? null : before + i * columns + j) });
    inner.paint(() => {
      const levels = Uint8Array.from({ length: rows * columns }, (_, k) => (column.signed ? 128 + 127 * parts[before + k] : 255 * Math.max(0, parts[before + k])));
      map.show(levels, column.signed ? divergingPalette() : sequentialPalette());
    });
    return make("figure", { class: "plain" }, columnHead(column), map.element);
  });
}

function contributionBars(inner, part, stream, say) {
  const parts = part.columns.map(relative);
  const fills = [];
  const cell = (column, c, k) => {
    const size = Math.abs(parts[c][k]);
    const fill = make("span", { class: "fill" });
    const left = column.signed ? (parts[c][k] < 0 ? 50 - 50 * size : 50) : 0;
    Object.assign(fill.style, { left: `${left}%`, width: `${(column.signed ? 50 : 100) * size}%` });
    fills.push([fill, column.signed, parts[c][k]]);
    return make("td", {}, make("span", { class: column.signed ? "track signed" : "track" }, fill), make("span", { class: "number" }, column.signed ? signed(column.values[k]) : three(column.values[k])));
  };
  const rows = stream.labels.map((label, k) => make("tr", { onpointerenter: () => say(k) }, make("th", { scope: "row" }, token(label, k)), part.columns.map((column, c) => cell(column, c, k))));
  inner.paint(() => {
    for (const [fill, hasSign, value] of fills) fill.style.background = css(hasSign ? diverging(value < 0 ? -0.8 : 0.8) : sequential(0.6));
  });
  const head = make("tr", {}, make("td"), part.columns.map((column) => make("th", { scope: "col" }, columnHead(column))));
  return make("div", { class: "scroll" }, make("table", { class: "contributions" }, make("thead", {}, head), make("tbody", {}, rows)));
}
