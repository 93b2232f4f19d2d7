// A matrix of any size on one canvas, with labels, a crosshair, pointer and arrow keys.

const TEXT = 12;          // a label takes so many pixels; those that do not fit are left out
const LARGEST_CELL = 40;

// n × m bytes, each the number of a colour. told(i, j) hears where the reader points, told(null) that she left.
// In a `square` map cells are as high as they are wide. `highest`: the map is not higher than so many pixels.
function heatmap(here, { n, m, rows = null, columns = null, name, told, square = true, highest = 620, rowName = "", columnName = "" }) {
  const canvas = make("canvas", { class: "cells" });
  const bands = { row: make("div", { class: "band" }), column: make("div", { class: "band" }) };
  const marks = { row: make("bdi", { class: "label marked row" }), column: make("bdi", { class: "label marked column" }) };
  const field = make("div", { class: "field" }, canvas, bands.row, bands.column);
  const labels = make("div", { class: "labels", "aria-hidden": "true" });
  const titles = [make("span", { class: "axis column" }, columnName), make("span", { class: "axis row" }, rowName)];
  const frame = make("div", { class: "matrix", tabindex: "0", role: "application", "aria-roledescription": "matrix", "aria-label": name }, labels, field, marks.row, marks.column);
  const element = make("div", { class: "heatmap" }, columnName || rowName ? make("div", { class: "axes" }, titles) : null, frame);
  let [levels, table, size, at, pinned] = [null, null, null, null, null];

  function arrange(width) {
    const left = rows ? gutter(rows, Math.min(130, width * 0.28)) : 0;
    const top = columns ? gutter(columns, 110) : 0;
    const [most, tall] = [Math.max(40, width - left - 1), Math.max(40, highest - top)];
    let [across, down] = [Math.min(most / m, LARGEST_CELL), Math.min(tall / n, LARGEST_CELL)];
    if (square) across = down = Math.min(across, down);
    else if (!rows) [across, down] = [most / m, Math.min(tall / n, Math.max(2, across))];
    const ratio = devicePixelRatio || 1;
    const snap = (cell) => (cell * ratio >= 2 ? Math.floor(cell * ratio) / ratio : cell);
    [across, down] = [snap(across), snap(down)];
    size = { left, top, across, down, width: Math.max(1, across * m), height: Math.max(1, down * n), ratio };
    Object.assign(frame.style, { width: `${left + size.width}px`, height: `${top + size.height}px` });
    Object.assign(field.style, { left: `${left}px`, top: `${top}px`, width: `${size.width}px`, height: `${size.height}px` });
    canvas.width = Math.max(1, Math.round(size.width * ratio));
    canvas.height = Math.max(1, Math.round(size.height * ratio));
    refill(labels, rows ? thinned(n, down).map((i) => placed(rows[i], "row", i)) : null, columns ? thinned(m, across).map((j) => placed(columns[j], "column", j)) : null);
    paint();
    mark();
  }

  function placed(label, side, k, node = make("bdi", { class: `label ${side}` })) {
    node.textContent = clipped(shown(label), 40);
    if (side === "row") Object.assign(node.style, { top: `${size.top + (k + 0.5) * size.down}px`, width: `${size.left - 6}px` });
    else Object.assign(node.style, { left: `${size.left + (k + 0.5) * size.across}px`, height: `${size.top - 6}px` });
    return node;
  }

  function paint() {
    if (!size || !levels) return;
    paintCells(canvas, levels, n, m, table);
  }

  function mark() {
    const hidden = at === null || !size;
    for (const each of [bands.row, bands.column, marks.row, marks.column]) each.hidden = hidden;
    if (hidden) return;
    const [i, j] = at;
    for (const [band, k] of [[bands.row, i], [bands.column, j]]) band.hidden = k === null;
    marks.row.hidden = i === null || !rows;
    marks.column.hidden = j === null || !columns;
    if (i !== null) Object.assign(bands.row.style, { top: `${i * size.down}px`, height: `${size.down}px`, left: 0, right: 0 });
    if (j !== null) Object.assign(bands.column.style, { left: `${j * size.across}px`, width: `${size.across}px`, top: 0, bottom: 0 });
    if (!marks.row.hidden) placed(rows[i], "row", i, marks.row);
    if (!marks.column.hidden) placed(columns[j], "column", j, marks.column);
  }

  function point(next) {
    at = next;
    mark();
    told(...(next ?? [null]));
  }

  function under(event) {
    const box = field.getBoundingClientRect();
    const inside = (x, count) => Math.min(count - 1, Math.max(0, Math.floor(x * count)));
    return [inside((event.clientY - box.top) / box.height, n), inside((event.clientX - box.left) / box.width, m)];
  }

  field.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
  field.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(pinned));
  field.addEventListener("click", (event) => {
    const next = under(event);
    pinned = pinned && pinned[0] === next[0] && pinned[1] === next[1] ? null : next;
    point(next);
  });
  frame.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      pinned = null;
      point(null);
      return;
    }
    const far = event.shiftKey ? 10 : 1;
    const step = { ArrowUp: [-far, 0], ArrowDown: [far, 0], ArrowLeft: [0, -far], ArrowRight: [0, far], Home: [0, -m], End: [0, m] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = at ? [at[0] ?? 0, at[1] ?? 0] : [0, 0];
    const within = (k, count) => Math.min(count - 1, Math.max(0, k));
    pinned = at ? [within(i + step[0], n), within(j + step[1], m)] : [0, 0];
    point(pinned);
  });
  here.sized(element, arrange);

  return {
    element,
    show(nextLevels, nextTable) {
      [levels, table] = [nextLevels, nextTable];
      paint();
    },
    // what somebody points at elsewhere; either side may be null
    mark(i, j) {
      at = i === null && j === null ? pinned : [i, j];
      mark();
    },
  };
}

// Every k-th, so that labels do not touch.
function thinned(count, cell) {
  const step = Math.max(1, Math.ceil(TEXT / cell));
  return Array.from({ length: Math.ceil(count / step) }, (_, k) => k * step);
}

const measuring = document.createElement("canvas").getContext("2d");

// Room for the longest label, within reason.
function gutter(labels, most) {
  measuring.font = tokenFont(11.5);
  let widest = 12;
  for (const label of labels) {
    widest = Math.max(widest, measuring.measureText(clipped(shown(label), 40)).width);
    if (widest >= most) return most;
  }
  return Math.ceil(widest) + 10;
}

function tokenFont(pixels) {
  return `${pixels}px ui-monospace, "SF Mono", "Cascadia Mono", "Segoe UI Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace`;
}

// Cells as blocks of whole pixels; where there are more cells than pixels, a pixel shows the largest of its cells.
function paintCells(canvas, levels, n, m, table) {
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.width, canvas.height];
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const line = new Uint32Array(width);
  let lastFrom = -1;
  for (let y = 0; y < height; y++) {
    const from = Math.floor((y * n) / height);
    const to = Math.max(from + 1, Math.floor(((y + 1) * n) / height));
    if (from !== lastFrom || to > from + 1) paintLine(line, levels, from, to, m, table);
    lastFrom = from;
    pixels.set(line, y * width);
  }
  context.putImageData(image, 0, 0);
}

function paintLine(line, levels, from, to, m, table) {
  const width = line.length;
  for (let x = 0; x < width; x++) {
    const first = Math.floor((x * m) / width);
    const last = Math.max(first + 1, Math.floor(((x + 1) * m) / width));
    let largest = levels[from * m + first];
    for (let i = from; i < to; i++) for (let j = first; j < last; j++) largest = Math.max(largest, levels[i * m + j]);
    line[x] = table[largest];
  }
}
