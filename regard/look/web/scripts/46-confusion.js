// The confusion matrix: a row for each true class, as shares of it, with the counts.

const WRITTEN = 25;  // classes up to which counts are written into a table; more are a map that can be pointed at

view("confusion", "Confusion", (part, place, here) => {
  const labels = part.labels.map(shown);
  const n = labels.length;
  unpackedOnce(part.counts).then((bytes) => {
    if (here.closed) return;
    const counts = new Uint32Array(bytes.buffer, bytes.byteOffset, n * n);
    const of = labels.map((_, i) => counts.subarray(i * n, (i + 1) * n).reduce((sum, count) => sum + count, 0));
    const right = labels.reduce((sum, _, i) => sum + counts[i * n + i], 0);
    const total = of.reduce((sum, count) => sum + count, 0);
    const share = (i, j) => (of[i] ? counts[i * n + j] / of[i] : 0);
    const readout = make("output", { class: "readout short", "aria-live": "polite" });
    const told = (i, j) => {
      if (i === null || j === null) refill(readout, make("span", { class: "quiet" }, mistakes(labels, counts)));
      else refill(readout, confusionWords(labels, i, j), make("strong", {}, `${whole(counts[i * n + j])} of ${whole(of[i])}`));
    };
    const bar = colourBar(underText, [[0, "0%"], [0.5, "50%"], [1, "100%"]], "of the row");
    const figure = n <= WRITTEN ? confusionTable(here, labels, counts, share, told) : confusionMap(here, labels, share, told);
    const caption = `${whole(right)} of ${whole(total)} right (${percent(right / Math.max(1, total))}), on the ${part.split} split. Rows are true classes, columns predicted ones.`;
    refill(place, make("h2", {}, "Confusion matrix"), make("p", { class: "sentence" }, caption), readout, figure,
      make("div", { class: "legend" }, bar.element), part.classes?.length ? classTable(part.classes) : null);
    here.paint(bar.paint);
    told(null);
  });
});

function confusionWords(labels, i, j) {
  return [make("bdi", {}, labels[i]), i === j ? " is predicted correctly: " : [" is misclassified as ", make("bdi", {}, labels[j]), ": "]];
}

// The most frequent of them, in words.
function mistakes(labels, counts) {
  const n = labels.length;
  const wrong = [...counts.keys()].filter((k) => counts[k] && Math.floor(k / n) !== k % n).sort((a, b) => counts[b] - counts[a]);
  if (!wrong.length) return "Nothing is misclassified.";
  const most = wrong.slice(0, 3).map((k) => `${clipped(labels[Math.floor(k / n)], 24)} as ${clipped(labels[k % n], 24)} (${whole(counts[k])})`);
  return `Most often misclassified: ${most.join(", ")}.`;
}

function confusionTable(here, labels, counts, share, told) {
  const n = labels.length;
  const name = (label) => make("bdi", { title: label }, clipped(label, 16));
  const cells = [];
  const head = make("tr", {}, make("td", { class: "quiet" }, "true ↓"), labels.map((label) => make("th", { scope: "col" }, name(label))));
  const rows = labels.map((label, i) => make("tr", {}, make("th", { scope: "row" }, name(label)), labels.map((_, j) => {
    const cell = make("td", { onpointerenter: () => told(i, j) }, counts[i * n + j] ? whole(counts[i * n + j]) : "");
    cells.push([cell, share(i, j)]);
    return cell;
  })));
  here.paint(() => {
    for (const [cell, part] of cells) {
      const colour = part ? underText(part) : null;
      Object.assign(cell.style, { background: colour ? css(colour) : "none", color: colour ? legible(colour) : "inherit" });
    }
  });
  const above = make("tr", {}, make("td"), make("td", { class: "quiet", colspan: n }, "predicted →"));
  const table = make("table", { class: "confusion", onpointerleave: () => told(null) }, make("thead", {}, above, head), make("tbody", {}, rows));
  return scrolled(table);
}

// Precision and recall of each class; a dash where it was never predicted, or never there.
function classTable(classes) {
  const said = (x) => make("td", {}, x === null ? "–" : percent(x));
  const head = make("tr", {}, ["class", "examples", "precision", "recall"].map((each) => make("th", { scope: "col" }, each)));
  const rows = classes.map((each) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, shown(each.label))),
    make("td", {}, whole(each.count)), said(each.precision), said(each.recall)));
  return scrolled(make("table", { class: "classes" }, make("thead", {}, head), make("tbody", {}, rows)));
}

function confusionMap(here, labels, share, told) {
  const n = labels.length;
  const map = heatmap(here, { n, m: n, name: "confusion matrix", rows: labels, columns: labels, rowName: "true ↓", columnName: "predicted →", told });
  const levels = Uint8Array.from({ length: n * n }, (_, k) => Math.round(255 * 0.62 * share(Math.floor(k / n), k % n)));
  here.paint(() => map.show(levels, sequentialPalette()));
  return map.element;
}
