// A plot of lines: axes with few ticks, and a read-out under the pointer.

const MARGIN = { left: 52, right: 16, top: 10, bottom: 40 };

// series: [{name, points: [[x, y], …], colour: () => css, width, dots, faint, ringed: a point or null}]
// said: how a value is written; reach: [from, to] on the x axis, where several plots share it
function linePlot(here, { series, x, y, name, height = 300, logarithmic = false, hint = true, said = three, reach: shared = null }) {
  const drawable = ([, value]) => Number.isFinite(value) && (!logarithmic || value > 0);
  const known = series.map((each) => ({ ...each, points: each.points.filter(drawable) })).filter(({ points }) => points.length);
  if (!known.length) return make("p", { class: "empty" }, `${y}: there are no numbers yet.`);
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const frame = make("div", {
    class: "plot", tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-label": name,
  });
  const keys = make("div", { class: "keys" });
  const element = make("div", { class: "plot-figure" }, keys, frame, readout);
  const hair = makeSvg("g", { class: "hair" });
  const places = [...new Set(known.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const [left, right] = shared ?? [places[0], places[places.length - 1]];
  const [bottom, top] = rangeOf(known, logarithmic);
  let [width, at] = [0, null];

  const along = (value) => (right > left ? (value - left) / (right - left) : 0.5);
  const across = (value) => MARGIN.left + (width - MARGIN.left - MARGIN.right) * along(value);
  const high = (value) => ((logarithmic ? Math.log10(value) : value) - bottom) / (top - bottom);
  const up = (value) => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (1 - high(value));

  function paint() {
    if (!width) return;
    const foot = height - MARGIN.bottom;
    const xs = ticks(left, right, Math.max(2, Math.floor(width / 110))).filter(Number.isInteger);
    const ys = logarithmic ? powers(bottom, top) : ticks(bottom, top, 5);
    const grid = ys.map((value) => [
      makeSvg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: up(value), y2: up(value) }),
      makeSvg("text", { class: "tick", x: MARGIN.left - 8, y: up(value) + 4, "text-anchor": "end" },
        logarithmic ? powerText(value) : tickText(value, ys))]);
    const numbers = xs.map((value) => (
      makeSvg("text", { class: "tick", x: across(value), y: foot + 18, "text-anchor": "middle" }, tickText(value, xs))));
    refill(frame, makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, grid, numbers,
      makeSvg("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: foot, y2: foot }),
      makeSvg("text", { class: "axis-name", x: across((left + right) / 2), y: height - 4, "text-anchor": "middle" }, x),
      known.map(paintSeries), hair));
    refill(keys, make("span", { class: "axis-name" }, y), known.length > 1 ? known.map(paintKey) : null);
    say();
  }

  function paintKey({ name: words, colour, faint }) {
    const line = make("span", { class: "line", style: `--colour: ${colour()}; opacity: ${faint ? 0.5 : 1}` });
    return make("span", { class: "key" }, line, words);
  }

  function paintSeries({ points, colour, width: stroke = 1.8, dots, faint, ringed }) {
    const dot = ([a, b], shape) => makeSvg("circle", { cx: across(a), cy: up(b), ...shape });
    const path = thinnedLine(points, width * 2).map(([a, b], k) => `${k ? "L" : "M"}${across(a).toFixed(1)} ${up(b).toFixed(1)}`);
    return makeSvg("g", { opacity: faint ? 0.45 : 1 },
      makeSvg("path", { d: path.join(""), fill: "none", stroke: colour(), "stroke-width": stroke, "stroke-linejoin": "round" }),
      dots || points.length === 1 ? points.map((point) => dot(point, { r: 3, fill: colour() })) : null,
      ringed ? dot(ringed, { r: 7, fill: "none", stroke: colour(), "stroke-width": 1.5 }) : null);
  }

  function say() {
    if (at === null) {
      refill(hair);
      refill(readout, hint ? make("span", { class: "quiet" }, "Point at the plot, or use the arrow keys.") : null);
      return;
    }
    const near = ([, [a]]) => Math.abs(across(a) - across(at)) < 14;
    const found = known.map((each) => [each, nearest(each.points, at)]).filter(near);
    refill(hair, makeSvg("line", { x1: across(at), x2: across(at), y1: MARGIN.top, y2: height - MARGIN.bottom }),
      found.map(([each, [a, b]]) => makeSvg("circle", { cx: across(a), cy: up(b), r: 4.5, fill: each.colour() })));
    const elsewhere = (a) => (a === at ? "" : ` (${x} ${whole(a)})`);
    refill(readout, `${x} ${whole(at)} `, found.map(([each, [a, b]]) => make("span", { class: "item" },
      make("span", { class: "quiet" }, `${each.name}${elsewhere(a)} `), make("strong", {}, said(b)), " ")));
  }

  const point = (next) => {
    at = next;
    say();
  };
  const under = (event) => {
    const part = (event.clientX - frame.getBoundingClientRect().left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
    return places[placeOf(places, left + part * (right - left))];
  };
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
  frame.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  frame.addEventListener("click", (event) => point(under(event)));
  frame.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step || step[1] === 0) return;
    event.preventDefault();
    const next = (at === null ? -1 : placeOf(places, at)) + step[1];
    point(places[Math.min(places.length - 1, Math.max(0, next))]);
  });
  here.sized(element, (next) => {
    width = next;
    paint();
  });
  here.painters.push(paint);
  return element;
}

// from the lowest to the highest value, with some air
function rangeOf(series, logarithmic) {
  let [low, high] = [Infinity, -Infinity];
  for (const { points } of series) {
    for (const [, value] of points) {
      const seen = logarithmic ? Math.log10(value) : value;
      [low, high] = [Math.min(low, seen), Math.max(high, seen)];
    }
  }
  const air = high > low ? 0.06 * (high - low) : 0.1 * Math.abs(high) || 0.5;
  return [low - air, high + air];
}

// the place of the nearest number in an ascending list
function placeOf(sorted, value) {
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}

function nearest(points, value) {
  return points[placeOf(points.map(([a]) => a), value)];
}

// Round numbers for a logarithmic scale that reaches from 10^bottom to 10^top.
function powers(bottom, top) {
  const digits = top - bottom > 2 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(bottom); power <= Math.ceil(top); power++) found.push(...digits.map((digit) => digit * 10 ** power));
  return found.filter((value) => Math.log10(value) >= bottom && Math.log10(value) <= top);
}

// Such a number, which has one digit: 0.001, 5·10⁻⁴
function powerText(value) {
  return value >= 0.001 && value < 1e5 ? String(Number(value.toPrecision(1))) : tens(value, 1);
}

// A long line is drawn with the smallest and the largest value of each stretch, so that no spike is lost.
function thinnedLine(points, most) {
  if (points.length <= most) return points;
  const stretch = Math.ceil((2 * points.length) / most);
  const kept = [];
  for (let k = 0; k < points.length; k += stretch) {
    const part = points.slice(k, k + stretch);
    const low = part.reduce((a, b) => (b[1] < a[1] ? b : a));
    const high = part.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(low[0] < high[0] ? [low, high] : [high, low]));
  }
  return kept;
}
