// Many discs on a canvas, those behind first, written into its pixels: fast enough to turn twenty thousand with the hand.

const RIM = 0.9;  // pixels of paper around each disc, which keep neighbours apart

class Splats {
  constructor(canvas, count) {
    this.canvas = canvas;
    this.order = new Uint32Array(count);
    this.slots = new Uint32Array(count);
    this.starts = new Uint32Array(1025);
  }

  // from far to near, by counting
  sort(depth) {
    const { order, slots, starts } = this;
    starts.fill(0);
    for (let k = 0; k < order.length; k++) {
      slots[k] = Math.min(1023, Math.max(0, Math.floor((1 - (depth[k] + 1.8) / 3.6) * 1024)));
      starts[slots[k] + 1] += 1;
    }
    for (let slot = 1; slot < starts.length; slot++) starts[slot] += starts[slot - 1];
    for (let k = 0; k < order.length; k++) order[starts[slots[k]]++] = k;
  }

  // seen: as the camera gives it; radii in pixels of the page; colours: three bytes a disc; paper: [r, g, b]
  paint(seen, radii, colours, paper, { width, height }) {
    const ratio = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    const context = this.canvas.getContext("2d");
    if (this.image?.width !== wide || this.image?.height !== high) this.image = context.createImageData(wide, high);
    const { data } = this.image;
    new Uint32Array(data.buffer).fill((255 << 24) | (paper[2] << 16) | (paper[1] << 8) | paper[0]);
    this.sort(seen.depth);
    for (const k of this.order) this.disc(data, wide, high, seen.x[k] * ratio, seen.y[k] * ratio, radii[k] * ratio, colours, 3 * k, paper);
    context.putImageData(this.image, 0, 0);
  }

  disc(data, wide, high, x, y, radius, colours, at, paper) {
    const reach = radius + RIM + 0.5;
    const [left, right] = [Math.max(0, Math.ceil(x - reach - 0.5)), Math.min(wide - 1, Math.floor(x + reach - 0.5))];
    const [top, bottom] = [Math.max(0, Math.ceil(y - reach - 0.5)), Math.min(high - 1, Math.floor(y + reach - 0.5))];
    const [r, g, b] = [colours[at], colours[at + 1], colours[at + 2]];
    for (let py = top; py <= bottom; py++) {
      const dy = py + 0.5 - y;
      for (let px = left; px <= right; px++) {
        const dx = px + 0.5 - x;
        const away = Math.sqrt(dx * dx + dy * dy);
        const rim = 0.75 * Math.min(1, reach - away);
        if (rim <= 0) continue;
        const inner = Math.max(0, Math.min(1, radius + 0.5 - away));
        const pixel = 4 * (py * wide + px);
        const under = 1 - rim;
        data[pixel] = (data[pixel] * under + paper[0] * rim) * (1 - inner) + r * inner;
        data[pixel + 1] = (data[pixel + 1] * under + paper[1] * rim) * (1 - inner) + g * inner;
        data[pixel + 2] = (data[pixel + 2] * under + paper[2] * rim) * (1 - inner) + b * inner;
      }
    }
  }
}

// the paper that something lies on, as three bytes
function paperOf(element) {
  let node = element;
  while (node) {
    const found = getComputedStyle(node).backgroundColor.match(/[\d.]+/g)?.map(Number);
    if (found && (found.length < 4 || found[3] > 0)) return found.slice(0, 3).map(Math.round);
    node = node.parentElement;
  }
  return dark() ? [19, 21, 25] : [253, 253, 252];
}
