// A camera around what lies in space or in a plane: turned or moved with the pointer, a finger or the arrow keys, and nearer
// with the wheel, two fingers, + and −.

const FARTHEST = 3.2;  // of the eye from the middle, where all things lie within 1
const TURN = Math.PI / 18;
const ZOOMS = [0.5, 24];

class Camera {
  constructor(flat) {
    this.flat = flat;
    this.home();
  }

  home() {
    Object.assign(this, { yaw: 0.6, pitch: 0.35, zoom: 1, across: 0, down: 0 });
  }

  // by so many pixels
  drag(dx, dy, width) {
    if (this.flat) {
      this.across += dx;
      this.down += dy;
    } else {
      this.yaw += (4 * dx) / width;
      this.pitch = Math.max(-1.57, Math.min(1.57, this.pitch + (4 * dy) / width));
    }
  }

  // nearer by a factor; in a plane what lies at (x, y), measured from the middle, stays there. False at the end of the way.
  near(factor, x = 0, y = 0) {
    const next = Math.max(ZOOMS[0], Math.min(ZOOMS[1], this.zoom * factor));
    if (next === this.zoom) return false;
    const part = next / this.zoom;
    if (this.flat) [this.across, this.down] = [x - (x - this.across) * part, y - (y - this.down) * part];
    this.zoom = next;
    return true;
  }

  // Where things are seen. places: count × dims, within 1 of the middle; seen: {x, y, depth, size} typed arrays.
  // `size` is how much larger or smaller a thing looks than in the middle.
  project(places, dims, { width, height }, seen) {
    const scale = 0.46 * this.zoom * Math.min(width, height);
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    for (let k = 0; k < seen.x.length; k++) {
      const [a, b] = [places[k * dims], places[k * dims + 1]];
      if (this.flat) {
        seen.x[k] = width / 2 + this.across + a * scale;
        seen.y[k] = height / 2 + this.down - b * scale;
        continue;
      }
      const c = places[k * dims + 2];
      const [right, deep] = [a * cy - b * sy, a * sy + b * cy];
      const depth = deep * cp - c * sp;
      const size = FARTHEST / (FARTHEST + depth);
      seen.x[k] = width / 2 + right * scale * size;
      seen.y[k] = height / 2 - (c * cp + deep * sp) * scale * size;
      seen.depth[k] = depth;
      seen.size[k] = size;
    }
  }
}

function seenArrays(count) {
  return { x: new Float32Array(count), y: new Float32Array(count), depth: new Float32Array(count), size: new Float32Array(count).fill(1) };
}

// Numbers count × dims, moved and scaled as one so that all lie within 1 of the middle.
function centredPlaces(places, dims) {
  const found = Float32Array.from(places);
  let most = 0;
  for (let d = 0; d < dims; d++) {
    let [low, high] = [Infinity, -Infinity];
    for (let k = d; k < found.length; k += dims) [low, high] = [Math.min(low, found[k]), Math.max(high, found[k])];
    for (let k = d; k < found.length; k += dims) found[k] -= (low + high) / 2;
  }
  for (let k = 0; k < found.length; k += dims) {
    most = Math.max(most, Math.hypot(...found.subarray(k, k + dims)));
  }
  return most > 0 ? found.map((value) => value / most) : found;
}

// The pointer on a frame. moved() hears that the camera has, pointed(x, y) where the mouse is, or null, chosen(x, y) a click.
function steered(frame, camera, { moved, pointed, chosen: clicked }) {
  const down = new Map();  // pointers that are pressed -> where they are
  let travelled = 0;
  const at = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const apart = () => {
    const [[a, b], [c, d]] = [...down.values()];
    return Math.hypot(a - c, b - d);
  };
  const zoomed = (factor, [x, y]) => camera.near(factor, x - frame.clientWidth / 2, y - frame.clientHeight / 2);

  frame.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    if (down.size === 0) travelled = 0;
    down.set(event.pointerId, at(event));
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    const now = at(event);
    if (!down.has(event.pointerId)) {
      if (event.pointerType === "mouse") pointed(...now);
      return;
    }
    const before = down.get(event.pointerId);
    const wide = down.size > 1 ? apart() : 0;
    down.set(event.pointerId, now);
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (travelled < 4) return;
    if (down.size > 1) zoomed(apart() / Math.max(1, wide), now);
    else camera.drag(now[0] - before[0], now[1] - before[1], frame.clientWidth);
    moved();
  });
  const ended = (event) => {
    const was = down.delete(event.pointerId);
    if (was && event.type === "pointerup" && travelled < 4 && down.size === 0) clicked(...at(event));
  };
  frame.addEventListener("pointerup", ended);
  frame.addEventListener("pointercancel", ended);
  frame.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && down.size === 0 && pointed(null));
  frame.addEventListener("wheel", (event) => {
    if (!zoomed(Math.exp(-0.0015 * event.deltaY), at(event))) return;  // at the end of the way the page scrolls
    event.preventDefault();
    moved();
  }, { passive: false });
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const factor = { "+": 1.25, "=": 1.25, "-": 0.8, "−": 0.8 }[event.key];
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || !(step || factor || event.key === "Home")) return;
    event.preventDefault();
    const stride = (TURN / 4) * frame.clientWidth;
    if (step) camera.drag(step[0] * stride, step[1] * stride, frame.clientWidth);
    else if (factor) camera.near(factor);
    else camera.home();
    moved();
  });
}

// The nearest of what is seen, within so many pixels; of near ones the one in front.
function nearestSeen(seen, x, y, reach) {
  let [best, found] = [reach * reach, null];
  for (let k = 0; k < seen.x.length; k++) {
    const away = (seen.x[k] - x) ** 2 + (seen.y[k] - y) ** 2 + 30 * (1 + seen.depth[k]);
    if (away < best && (seen.x[k] - x) ** 2 + (seen.y[k] - y) ** 2 < reach * reach) [best, found] = [away, k];
  }
  return found;
}

// How large the figure of a space is on a page of this width.
function spaceSize(width) {
  return { width, height: Math.round(Math.max(260, Math.min(0.8 * width, 600, 0.64 * innerHeight))) };
}
