// A plot of lines: axes with few ticks, direct labels, and a read-out under the pointer.

// series: [{name, points: [[x, y], …], colour: () => css, width, dots, faint, ringed: a point or null}]
function linePlot(here, { series, x, y, name, height = 300, logarithmic = false, wholeSteps = false }) {
  const all = series.flatMap(({ points }) => points).filter(([, value]) => Number.isFinite(value) && (!logarithmic || value > 0));
  const readout = make("output", { class: "readout short", "aria-live": "polite" });
  const frame = make("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-label": name });
  const keys = make("div", { class: "keys" });
  const element = make("div", { class: "plot-figure" }, keys, frame, readout);
  if (!all.length) {
    refill(element, make("p", { class: "empty" }, "There are no numbers yet."));
    return { element };
  }
  const places = [...new Set(all.map(([at]) => at))].sort((a, b) => a - b);
  const [left, right] = [places[0], places[places.length - 1]];
  const heights = all.map(([, value]) => (logarithmic ? Math.log10(value) : value));
  let [bottom, top] = [heights.reduce((a, b) => Math.min(a, b)), heights.reduce((a, b) => Math.max(a, b))];
  if (top === bottom) [bottom, top] = [bottom - 0.5, top + 0.5];
  const air = 0.06 * (top - bottom);
  [bottom, top] = [bottom - air, top + air];
  const margin = { left: 52, right: 16, top: 10, bottom: 40 };
  let [width, at] = [0, null];

  const across = (value) => margin.left + ((width - margin.left - margin.right) * (value - left)) / (right - left || 1);
  const up = (value) => margin.top + (height - margin.top - margin.bottom) * (1 - ((logarithmic ? Math.log10(value) : value) - bottom) / (top - bottom));

  function paint() {
    if (!width) return;
    const xs = ticks(left, right, Math.max(2, Math.floor(width / 110))).filter((value) => !wholeSteps || Number.isInteger(value));
    const ys = logarithmic ? powers(bottom, top) : ticks(bottom, top, 5);
    const grid = ys.map((value) => [makeSvg("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: up(value), y2: up(value) }),
      makeSvg("text", { class: "tick", x: margin.left - 8, y: up(value) + 4, "text-anchor": "end" }, logarithmic ? three(value) : tickText(value, ys))]);
    const foot = xs.map((value) => makeSvg("text", { class: "tick", x: across(value), y: height - margin.bottom + 18, "text-anchor": "middle" }, tickText(value, xs)));
    const drawn = series.map(({ points, colour, width: stroke = 1.8, dots, faint, ringed }) => {
      const good = points.filter(([, value]) => Number.isFinite(value) && (!logarithmic || value > 0));
      const path = thinnedLine(good, width * 2).map(([a, b], k) => `${k ? "L" : "M"}${across(a).toFixed(1)} ${up(b).toFixed(1)}`).join("");
      return makeSvg("g", { opacity: faint ? 0.45 : 1 }, makeSvg("path", { d: path, fill: "none", stroke: colour(), "stroke-width": stroke, "stroke-linejoin": "round" }),
        dots || good.length === 1 ? good.map(([a, b]) => makeSvg("circle", { cx: across(a), cy: up(b), r: 3, fill: colour() })) : null,
        ringed ? makeSvg("circle", { cx: across(ringed[0]), cy: up(ringed[1]), r: 7, fill: "none", stroke: colour(), "stroke-width": 1.5 }) : null);
    });
    const hair = makeSvg("g", { class: "hair" });
    refill(frame, makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, grid, foot,
      makeSvg("line", { class: "axis", x1: margin.left, x2: width - margin.right, y1: height - margin.bottom, y2: height - margin.bottom }),
      makeSvg("text", { class: "axis-name", x: (margin.left + width - margin.right) / 2, y: height - 4, "text-anchor": "middle" }, x), drawn, hair));
    refill(keys, make("span", { class: "axis-name" }, y), series.map(({ name: said, colour, faint, dots }) => make("span", { class: "key" },
      make("span", { class: dots ? "line dotted" : "line", style: `--colour: ${colour()}; opacity: ${faint ? 0.5 : 1}` }), said)));
    hairAt(hair);
  }

  function hairAt(hair) {
    if (at === null) {
      refill(hair);
      refill(readout, make("span", { class: "quiet" }, "Point at the plot, or use the arrow keys."));
      return;
    }
    const found = series.map((each) => [each, nearest(each.points, at)]).filter(([, point]) => point && Math.abs(across(point[0]) - across(at)) < 14 && Number.isFinite(point[1]));
    refill(hair, makeSvg("line", { x1: across(at), x2: across(at), y1: margin.top, y2: height - margin.bottom }),
      found.map(([each, [a, b]]) => (!logarithmic || b > 0 ? makeSvg("circle", { cx: across(a), cy: up(b), r: 4.5, fill: each.colour() }) : null)));
    refill(readout, `${x} ${wholeSteps ? whole(at) : three(at)} `, found.map(([each, [a, b]]) => make("span", { class: "item" }, make("span", { class: "quiet" }, `${each.name}${a === at ? "" : ` (${x} ${whole(a)})`} `), make("strong", {}, three(b)), " ")));
  }

  const point = (next) => {
    at = next;
    const hair = frame.querySelector(".hair");
    if (hair) hairAt(hair);
  };
  const under = (event) => {
    const box = frame.getBoundingClientRect();
    const value = left + ((event.clientX - box.left - margin.left) / (width - margin.left - margin.right)) * (right - left);
    return places[placeOf(places, value)];
  };
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
  frame.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(null));
  frame.addEventListener("click", (event) => point(under(event)));
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (at === null ? -1 : placeOf(places, at)) + step * (event.shiftKey ? 10 : 1);
    point(places[Math.min(places.length - 1, Math.max(0, next))]);
  });
  here.sized(element, (next) => {
    width = next;
    paint();
  });
  here.painters.push(paint);
  return { element };
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
  return points.length ? points[placeOf(points.map(([a]) => a), value)] : null;
}

function powers(bottom, top) {
  const found = [];
  for (let power = Math.floor(bottom); power <= Math.ceil(top); power++) for (const digit of top - bottom > 2 ? [1] : [1, 2, 5]) {
    const value = digit * 10 ** power;
    if (Math.log10(value) >= bottom && Math.log10(value) <= top) found.push(value);
  }
  return found;
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
