// Inputs of an autoencoder as they are drawn: images, rows of a table as bars or numbers, point clouds as dots.

const BARS = 48;  // columns of a row that are drawn small
const MOST_COLUMNS = 40;  // of a table on the page
const DEVIATIONS = 3;  // that a bar reaches
const CLOUD = 100;  // half the side of a drawn point cloud, in its own units

class Exhibit {
  // inputs: what they are; data: {count, sheet, numbers}
  constructor(inputs, data) {
    Object.assign(this, { inputs, data, numbers: null, image: null });
  }

  get each() {
    return this.data.numbers.shape.slice(1).reduce((a, b) => a * b, 1);
  }

  async load() {
    if (this.data.sheet) {
      this.image = await loadedImage(this.data.sheet.picture);
    } else if (!this.numbers) {
      this.numbers = floatsOf(await unpacked(this.data.numbers.data));
    }
    return this;
  }

  // the numbers of one of them
  of(k) {
    return this.numbers.subarray(k * this.each, (k + 1) * this.each);
  }

  // where an image is on its sheet: left, top, width, height
  cell(k) {
    const { rows, columns } = this.data.sheet;
    const [w, h] = [this.image.naturalWidth / columns, this.image.naturalHeight / rows];
    return [(k % columns) * w, Math.floor(k / columns) * h, w, h];
  }

  small(k) {
    const { form } = this.inputs;
    if (form === "images") return this.picture(k);
    return form === "rows" ? rowBars(this.of(k)) : cloudDots(this.of(k), this.inputs, new Camera(false));
  }

  large(k) {
    const { form } = this.inputs;
    if (form === "images") return this.picture(k);
    return form === "rows" ? rowTable(this.inputs, [["", this.of(k)]]) : turnedCloud(this.of(k), this.inputs);
  }

  picture(k) {
    const [left, top, w, h] = this.cell(k);
    const canvas = make("canvas", { width: w, height: h, class: "exhibit-picture" });
    canvas.getContext("2d").drawImage(this.image, left, top, w, h, 0, 0, w, h);
    return canvas;
  }
}

function loadedImage(address) {
  return new Promise((resolve, reject) => {
    const image = make("img", { onload: () => resolve(image), onerror: () => reject(new Error("an image of this page cannot be read")) });
    image.src = safeImage(address);
  });
}

// ---- rows of a table

// A number in the units of its column.
function inUnits({ centre, scale }, i, value) {
  return value * scale[i] + centre[i];
}

// One bar a column, up or down from its mean.
function rowBars(numbers) {
  const shownNumbers = Array.from(numbers.subarray(0, BARS));
  const bars = shownNumbers.map((value, i) => {
    const size = Math.min(1, Math.abs(value) / DEVIATIONS) * 50;
    return makeSvg("rect", { class: value < 0 ? "below" : "above", x: i + 0.1, width: 0.8, y: value < 0 ? 50 : 50 - size, height: size });
  });
  const base = makeSvg("line", { x1: 0, x2: shownNumbers.length, y1: 50, y2: 50 });
  return makeSvg("svg", { class: "exhibit-bars", viewBox: `0 0 ${shownNumbers.length} 100`, preserveAspectRatio: "none" }, bars, base);
}

// Rows as numbers, one line a column. rows: [[heading, numbers], …]; with two of them, their difference beside it. Of many
// columns, those that differ most are shown.
function rowTable(inputs, rows) {
  const two = rows.length > 1;
  const [first, last] = [rows[0][1], rows.at(-1)[1]];
  const heads = ["column", ...rows.map(([words]) => words || "value"), ...(two ? ["difference"] : [])];
  const line = (i) => {
    const values = rows.map(([, numbers]) => inUnits(inputs, i, numbers[i]));
    const far = Math.min(1, Math.abs(last[i] - first[i]) / DEVIATIONS);
    const difference = make("td", { class: "figure apart", style: `--far: ${(100 * far).toFixed(0)}%` }, signed(values.at(-1) - values[0]));
    return make("tr", {}, columnName(inputs.columns[i]), values.map((value) => make("td", { class: "figure" }, number(value, 4))), two ? difference : null);
  };
  const order = inputs.columns.map((_, i) => i);
  const many = order.length > MOST_COLUMNS;
  if (many && two) order.sort((a, b) => Math.abs(last[b] - first[b]) - Math.abs(last[a] - first[a]));
  const rest = many ? make("p", { class: "quiet small" }, `and ${whole(order.length - MOST_COLUMNS)} more columns${two ? ", which differ less" : ""}`) : null;
  return make("div", {}, scrolled(make("table", { class: "exhibit-table" }, tableHead(heads), make("tbody", {}, order.slice(0, MOST_COLUMNS).map(line)))), rest);
}

function columnName(name) {
  return make("th", { scope: "row" }, make("bdi", {}, clipped(shown(name), 40)));
}

function tableHead(words) {
  return make("thead", {}, make("tr", {}, words.map((each) => make("th", { scope: "col" }, make("bdi", {}, each)))));
}

// ---- point clouds

// All dots are one path of round points: it is drawn at once, and has the colour of the page.
function cloudDots(numbers, inputs, camera) {
  const dots = makeSvg("path", { class: "dots", d: cloudPath(numbers, inputs, camera) });
  const wide = numbers.length / inputs.shape[1] > 400 ? 2.4 : 4;
  dots.style.strokeWidth = wide;
  return makeSvg("svg", { class: "exhibit-cloud", viewBox: `${-CLOUD} ${-CLOUD} ${2 * CLOUD} ${2 * CLOUD}` }, dots);
}

function cloudPath(numbers, { shape: [, d], reach: far }, camera) {
  const dims = Math.min(3, d);
  const count = numbers.length / d;
  const places = new Float32Array(count * 3);
  for (let k = 0; k < count; k++) {
    for (let i = 0; i < dims; i++) places[3 * k + i] = numbers[k * d + i] / (far * 1.3);
  }
  const seen = seenArrays(count);
  Object.assign(camera, { flat: dims < 3 });
  camera.project(places, 3, { width: 2 * CLOUD, height: 2 * CLOUD }, seen);
  let path = "";
  for (let k = 0; k < count; k++) path += `M${(seen.x[k] - CLOUD).toFixed(1)} ${(seen.y[k] - CLOUD).toFixed(1)}h0`;
  return path;
}

const cloudCamera = { now: null };  // one for all large clouds: what was turned stays turned

// A point cloud that is turned with the hand or the arrow keys.
function turnedCloud(numbers, inputs) {
  cloudCamera.now ??= new Camera(false);
  const camera = cloudCamera.now;
  const drawing = cloudDots(numbers, inputs, camera);
  const flat = inputs.shape[1] < 3;
  const frame = make("div", {
    class: "space exhibit-space", tabindex: "0", role: "application", "aria-roledescription": "point cloud",
    "aria-label": `${numbers.length / inputs.shape[1]} points; arrow keys ${flat ? "move" : "turn"}, plus and minus zoom`,
  }, drawing);
  const moved = () => drawing.firstChild.setAttribute("d", cloudPath(numbers, inputs, camera));
  steered(frame, camera, { moved, pointed() {}, chosen() {} });
  return frame;
}
