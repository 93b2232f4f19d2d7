// Nodes and edges on a canvas. Beneath are the edges of the graph itself, straight and grey, one line where both directions are
// there. Attention bends to one side, so that both directions are seen, and ends in an arrow.

const NODE = 6.5;         // largest radius in pixels
const EDGES_DRAWN = 6000; // the strongest of them
const BEND = 0.13;
const RING = 1.65;        // how many radii the middle of a ring lies beside its node

// ground: edges of the graph, [a, b, both ways]; strength(e) from 0 to 1; drawn(e): whether attention e is; colour(k): of a node;
// ink: of letters
function paintNetwork(context, { ground, source, target, seen, zoom, strength, drawn, state, colour, labels, ink, paper, size }) {
  const room = Math.sqrt((size.width * size.height) / seen.x.length);  // of a node
  const radius = Math.max(2.5, Math.min(NODE, 0.2 * room)) * Math.min(1.8, Math.max(0.75, Math.sqrt(zoom)));
  const away = outwards(source, target, seen);
  const order = Array.from(source.keys()).filter(drawn).sort((a, b) => strength(a) - strength(b)).slice(-EDGES_DRAWN);
  const stressed = (e) => state.node !== null && (target[e] === state.node || source[e] === state.node);
  context.lineCap = "butt";
  paintGround(context, ground, seen, radius, state.node, away);
  for (const pass of state.node === null ? [() => true] : [(e) => !stressed(e), stressed]) {
    for (const e of order) {
      if (!pass(e)) continue;
      const loud = state.node === null || stressed(e);
      const to = state.node !== null && source[e] === state.node && target[e] !== state.node;
      const part = strength(e);
      context.strokeStyle = context.fillStyle = css(to ? toColour() : lineColour());
      context.globalAlpha = Math.min(1, 0.1 + 0.9 * part) * (loud ? 1 : 0.16);
      context.lineWidth = 0.7 + 3.2 * part;
      if (source[e] === target[e]) paintLoop(context, seen, source[e], radius, away[source[e]]);
      else paintEdge(context, seen, source[e], target[e], radius);
    }
  }
  context.globalAlpha = 1;
  for (let k = 0; k < seen.x.length; k++) {
    context.beginPath();
    context.arc(seen.x[k], seen.y[k], k === state.node ? radius + 2 : radius, 0, 7);
    context.fillStyle = css(colour(k));
    context.fill();
    context.lineWidth = k === state.chosen ? 3 : 1.2;
    context.strokeStyle = k === state.chosen || k === state.node ? ink : css(paper);
    context.stroke();
  }
  const looped = new Set(order.filter((e) => source[e] === target[e]).map((e) => source[e]));
  paintNames(context, { seen, radius, labels, ink, paper, size, first: state.first, away, looped });
}

// The edges of the graph: those of a node that is pointed at are darker.
function paintGround(context, ground, seen, radius, node, away) {
  context.strokeStyle = context.fillStyle = css(groundColour());
  for (const [a, b, both] of ground) {
    const near = node !== null && (a === node || b === node);
    context.globalAlpha = near ? 1 : node === null ? 0.75 : 0.35;
    context.lineWidth = near ? 1.8 : 1.1;
    if (a === b) {
      paintLoop(context, seen, a, radius, away[a]);
      continue;
    }
    context.beginPath();
    context.moveTo(seen.x[a], seen.y[a]);
    context.lineTo(seen.x[b], seen.y[b]);
    context.stroke();
    const far = Math.hypot(seen.x[b] - seen.x[a], seen.y[b] - seen.y[a]);
    if (!both && far > 2 * radius) {
      const [ux, uy] = [(seen.x[b] - seen.x[a]) / far, (seen.y[b] - seen.y[a]) / far];
      paintTip(context, seen.x[b] - ux * (radius + 1.5), seen.y[b] - uy * (radius + 1.5), ux, uy, Math.min(6, 0.4 * far));
    }
  }
  context.globalAlpha = 1;
}

function groundColour() {
  return dark() ? oklch(0.55, 0.01, 260) : oklch(0.66, 0.01, 260);
}

function toColour() {
  return diverging(dark() ? 0.85 : 0.9);
}

// a curve from rim to rim, with an arrow at its end
function paintEdge(context, { x, y }, from, to, radius) {
  const [dx, dy] = [x[to] - x[from], y[to] - y[from]];
  const far = Math.hypot(dx, dy);
  if (far < 2 * radius + 2) return;
  const [cx, cy] = [(x[from] + x[to]) / 2 - dy * BEND, (y[from] + y[to]) / 2 + dx * BEND];
  const end = Math.hypot(x[to] - cx, y[to] - cy);
  const [ux, uy] = [(x[to] - cx) / end, (y[to] - cy) / end];
  const tip = Math.min(4 + 1.6 * context.lineWidth, 0.4 * far);
  const [ax, ay] = [x[to] - ux * (radius + 1.5), y[to] - uy * (radius + 1.5)];
  context.beginPath();
  context.moveTo(x[from], y[from]);
  context.quadraticCurveTo(cx, cy, ax - ux * tip * 0.8, ay - uy * tip * 0.8);
  context.stroke();
  paintTip(context, ax, ay, ux, uy, tip);
}

// the head of an arrow that ends at (x, y) and comes along (ux, uy)
function paintTip(context, x, y, ux, uy, tip) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - ux * tip - uy * tip * 0.45, y - uy * tip + ux * tip * 0.45);
  context.lineTo(x - ux * tip + uy * tip * 0.45, y - uy * tip - ux * tip * 0.45);
  context.fill();
}

// a ring at the side of the node where there are no neighbours
function paintLoop(context, { x, y }, k, radius, angle) {
  context.beginPath();
  context.arc(x[k] + Math.cos(angle) * RING * radius, y[k] + Math.sin(angle) * RING * radius, 0.95 * radius, 0, 7);
  context.stroke();
}

// for each node the direction away from its neighbours
function outwards(source, target, { x, y }) {
  const [dx, dy] = [new Float32Array(x.length), new Float32Array(x.length)];
  for (let e = 0; e < source.length; e++) {
    for (const [a, b] of [[source[e], target[e]], [target[e], source[e]]]) {
      const far = Math.hypot(x[b] - x[a], y[b] - y[a]);
      if (far > 0) [dx[a], dy[a]] = [dx[a] - (x[b] - x[a]) / far, dy[a] - (y[b] - y[a]) / far];
    }
  }
  return Float32Array.from(x, (_, k) => (dx[k] || dy[k] ? Math.atan2(dy[k], dx[k]) : -Math.PI / 2));
}

// Names where there is room, on the side away from the neighbours if it is free; `first` are those that come before all others,
// and the very first is always there.
function paintNames(context, { seen, radius, labels, ink, paper, size, first, away, looped }) {
  context.font = tokenFont(11.5);
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  const grid = new Taken(size);
  const disc = (x, y) => grid.take([x - radius, y - radius, x + radius, y + radius]);
  for (let k = 0; k < labels.length; k++) {
    disc(seen.x[k], seen.y[k]);
    if (looped.has(k)) disc(seen.x[k] + Math.cos(away[k]) * RING * radius, seen.y[k] + Math.sin(away[k]) * RING * radius);
  }
  const rest = labels.keys();
  for (const [place, k] of [...new Set([...first, ...rest])].entries()) {
    const text = clipped(labels[k], 24);
    const wide = context.measureText(text).width;
    const forced = place === 0 && first.length > 0;
    const [x, y] = [seen.x[k], seen.y[k]];
    if (x < 0 || y < 0 || x > size.width || y > size.height) continue;
    const sides = [[1, 0], [-1, 0], [0, -1], [0, 1]].map(([right, below]) => {
      const [cx, cy] = [x + right * (radius + 5 + wide / 2), y + below * (radius + 10)];
      return [[cx - wide / 2 - 1, cy - 7, cx + wide / 2 + 1, cy + 7], right * Math.cos(away[k]) + below * Math.sin(away[k])];
    }).sort((a, b) => b[1] - a[1]).map(([area]) => area);
    const area = sides.find((each) => grid.free(each)) ?? (forced ? sides.find((each) => grid.inside(each)) ?? sides[0] : null);
    if (!area) continue;
    grid.take(area);
    context.strokeStyle = css(paper, 0.85);
    context.strokeText(text, area[0] + 1, (area[1] + area[3]) / 2);
    context.fillStyle = ink;
    context.fillText(text, area[0] + 1, (area[1] + area[3]) / 2);
  }
}

// Which parts of a picture are taken; looked up by tiles, so that many names are placed at once.
class Taken {
  constructor({ width, height }) {
    Object.assign(this, { width, height, tiles: new Map() });
  }

  * near([left, top, right, bottom]) {
    for (let i = Math.floor(left / 40); i <= Math.floor(right / 40); i++) {
      for (let j = Math.floor(top / 40); j <= Math.floor(bottom / 40); j++) yield `${i}/${j}`;
    }
  }

  take(area) {
    for (const tile of this.near(area)) this.tiles.set(tile, [...(this.tiles.get(tile) ?? []), area]);
  }

  inside([left, top, right, bottom]) {
    return left >= 0 && top >= 0 && right <= this.width && bottom <= this.height;
  }

  free(area) {
    const [left, top, right, bottom] = area;
    if (!this.inside(area)) return false;
    for (const tile of this.near(area)) {
      if (this.tiles.get(tile)?.some(([a, b, c, d]) => a < right && c > left && b < bottom && d > top)) return false;
    }
    return true;
  }
}
