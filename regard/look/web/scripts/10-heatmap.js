// A matrix of any size on one canvas, with labels, a crosshair, pointer and arrow keys.

const TEXT = 12;          // a label takes so many pixels; those that do not fit are left out
const LARGEST_CELL = 40;

// n × m bytes, each the number of a colour; rows and columns: labels as they are shown.
// told(i, j) hears where the reader points, told(null) that she left.
// In a `square` map cells are as high as they are wide. `highest`: the map is not higher than so many pixels.
function heatmap(here, { n, m, name, told, rows = null, columns = null, rowName, columnName, square = true, highest = 620 }) {
  const canvas = make("canvas", { class: "cells" });
  const bands = { row: make("div", { class: "band across" }), column: make("div", { class: "band down" }) };
  const marks = { row: make("bdi", { class: "label marked row" }), column: make("bdi", { class: "label marked column" }) };
  const field = make("div", { class: "field" }, canvas, bands.row, bands.column);
  const labels = make("div", { class: "labels", "aria-hidden": "true" });
  const frame = make("div", {
    class: "matrix", tabindex: "0", role: "application", "aria-roledescription": "matrix", "aria-label": name,
  }, labels, field, marks.row, marks.column);
  const axes = rowName ? make("div", { class: "axes" }, make("span", {}, columnName), make("span", {}, rowName)) : null;
  const skipped = make("div", { class: "skipped", hidden: true });
  const element = make("div", { class: "heatmap" }, axes, frame, skipped);
  let [levels, table, size] = [null, null, null];
  let [at, pinned] = [null, null];  // what is pointed at, and where a click has left it

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
    size = { left, top, across, down, width: Math.max(1, across * m), height: Math.max(1, down * n) };
    Object.assign(frame.style, { width: `${left + size.width}px`, height: `${top + size.height}px` });
    Object.assign(field.style, { left: `${left}px`, top: `${top}px`, width: `${size.width}px`, height: `${size.height}px` });
    [canvas.width, canvas.height] = [size.width, size.height].map((length) => Math.max(1, Math.round(length * ratio)));
    refill(labels, rows ? thinned(n, down).map((i) => placed(rows[i], "row", i)) : null,
      columns ? thinned(m, across).map((j) => placed(columns[j], "column", j)) : null);
    const sides = [[rows, n, down, "row"], [columns, m, across, "column"]].map(([labelled, count, cell, side]) => (
      labelled && stride(cell) > 1 && count > 1 ? `every ${ordinal(stride(cell))} ${side}` : null)).filter(Boolean);
    skipped.hidden = !sides.length;
    skipped.textContent = skipped.hidden ? "" : `${capital(sides.join(" and "))} has its label; point at a cell to read the others.`;
    paint();
    mark();
  }

  function placed(label, side, k, node = make("bdi", { class: `label ${side}` })) {
    node.textContent = clipped(label, 40);
    node.classList.toggle("upright", side === "column" && [...label].length === 1);
    const [top, left] = [`${size.top + (k + 0.5) * size.down}px`, `${size.left + (k + 0.5) * size.across}px`];
    Object.assign(node.style, side === "row" ? { top, width: `${size.left - 6}px` } : { left, height: `${size.top - 6}px` });
    return node;
  }

  function paint() {
    if (size && levels) paintCells(canvas, levels, n, m, table);
  }

  function mark() {
    const [i, j] = size && at ? at : [null, null];
    bands.row.hidden = i === null;
    bands.column.hidden = j === null;
    marks.row.hidden = i === null || !rows;
    marks.column.hidden = j === null || !columns;
    if (i !== null) Object.assign(bands.row.style, { top: `${i * size.down}px`, height: `${size.down}px` });
    if (j !== null) Object.assign(bands.column.style, { left: `${j * size.across}px`, width: `${size.across}px` });
    if (!marks.row.hidden) placed(rows[i], "row", i, marks.row);
    if (!marks.column.hidden) placed(columns[j], "column", j, marks.column);
  }

  function point(next) {
    at = next;
    mark();
    told(...(next ?? [null]));
  }

  field.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(cellUnder(event, field, n, m)));
  field.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(pinned));
  field.addEventListener("click", (event) => {
    const next = cellUnder(event, field, n, m);
    pinned = pinned && pinned[0] === next[0] && pinned[1] === next[1] ? null : next;
    point(next);
  });
  frame.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" && !steps(event)) return;
    event.preventDefault();
    pinned = event.key === "Escape" ? null : stepped(event, at && [at[0] ?? 0, at[1] ?? 0], n, m);
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

// Row and column of the cell under the pointer.
function cellUnder(event, field, rows, columns) {
  const box = field.getBoundingClientRect();
  const inside = (part, count) => Math.min(count - 1, Math.max(0, Math.floor(part * count)));
  return [inside((event.clientY - box.top) / box.height, rows), inside((event.clientX - box.left) / box.width, columns)];
}

// By how many rows and columns a key moves, or undefined.
function steps(event) {
  const far = event.shiftKey ? 10 : 1;
  return {
    ArrowUp: [-far, 0], ArrowDown: [far, 0], ArrowLeft: [0, -far], ArrowRight: [0, far], Home: [0, -Infinity], End: [0, Infinity],
  }[event.key];
}

// The cell that a key leads to; the first key leads to the first cell.
function stepped(event, at, rows, columns) {
  if (!at) return [0, 0];
  const inside = (k, count) => Math.min(count - 1, Math.max(0, k));
  const [down, across] = steps(event);
  return [inside(at[0] + down, rows), inside(at[1] + across, columns)];
}

function stride(cell) {
  return Math.max(1, Math.ceil(TEXT / cell));
}

// 2nd, 3rd, 4th, 11th
function ordinal(k) {
  const teen = Math.floor((k % 100) / 10) === 1;
  return `${k}${(teen ? null : { 1: "st", 2: "nd", 3: "rd" }[k % 10]) ?? "th"}`;
}

// Every k-th, so that labels do not touch.
function thinned(count, cell) {
  const step = stride(cell);
  return Array.from({ length: Math.ceil(count / step) }, (_, k) => k * step);
}

const measuring = document.createElement("canvas").getContext("2d");

// Room for the longest label, within reason.
function gutter(labels, most) {
  measuring.font = tokenFont(11.5);
  let widest = 12;
  for (const label of labels) {
    widest = Math.max(widest, measuring.measureText(clipped(label, 40)).width);
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
  let painted = -1;
  for (let y = 0; y < height; y++) {
    const from = Math.floor((y * n) / height);
    const to = Math.max(from + 1, Math.floor(((y + 1) * n) / height));
    if (from !== painted) paintLine(line, levels, from, to, m, table);
    painted = from;
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
