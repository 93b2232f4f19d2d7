// Parts that several figures share.

const figures = {}; // name: element => draws it there

// A line that says in words what a figure shows; screen readers hear it when it changes.
function spoken() {
  return make("p", { class: "spoken", role: "status" });
}

// A slider with its value beside it.
function dial(words, { low, high, step, now, text = two }, changed) {
  const value = make("output", {}, text(now));
  const input = make("input", { type: "range", min: low, max: high, step, value: now, "aria-valuetext": text(now) });
  input.addEventListener("input", () => {
    const x = Number(input.value);
    value.textContent = text(x);
    input.setAttribute("aria-valuetext", text(x));
    changed(x);
  });
  return make("label", { class: "slider dial" }, make("span", {}, words), input, value);
}

function button(words, pressed, extra = {}) {
  return make("button", { type: "button", class: "toggle", onclick: pressed, ...extra }, words);
}

// A graph has fewer units on a narrow screen, so that its words stay large.
const graphWidth = () => (innerWidth < 640 ? 340 : 640);

const controls = (...children) => make("div", { class: "controls" }, children);

// What may be asked, as buttons of which one is down.
function questions(now, changed) {
  return choice(
    "the question",
    QUERIES.map((query, k) => [String(k), query.words]),
    String(now),
    (k) => changed(Number(k)),
  );
}

// Bars, one for each guest. set(weights, {words}) moves them; largest: the weight of a full bar.
function bars(guests, { largest = 1, label = "weights" } = {}) {
  const rows = guests.map((guest) => {
    const bar = make("span", { class: "level" });
    const number = make("span", { class: "value" });
    painted(() => {
      bar.style.background = css(colourOf(guest));
    });
    return {
      bar,
      number,
      row: make(
        "div",
        { class: "share" },
        portrait(guest, "tiny"),
        make("span", { class: "who" }, short(guest)),
        make("span", { class: "rail" }, bar),
        number,
      ),
    };
  });
  const element = make(
    "div",
    { class: "shares", role: "group", "aria-label": label },
    rows.map((each) => each.row),
  );
  return {
    element,
    set: (weights) =>
      rows.forEach(({ bar, number, row }, k) => {
        row.hidden = weights[k] === undefined;
        if (row.hidden) return;
        bar.style.width = `${100 * Math.min(1, Math.max(0, weights[k] / largest))}%`;
        number.textContent = two(weights[k]);
      }),
  };
}

// A matrix as a table whose cells have the colour of their number. diverging: from −1 to 1; else from 0 to 1
function matrixTable({ rows, columns, caption, heads = null, large = "" }) {
  const cells = rows.map(() => columns.map(() => make("td", {})));
  const corner = heads
    ? make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td", {}),
          heads.columns().map((head) => make("th", { scope: "col" }, head)),
        ),
      )
    : null;
  const body = cells.map((row, i) => make("tr", {}, heads ? make("th", { scope: "row" }, heads.row(i)) : null, row));
  const element = make(
    "table",
    { class: `table ${large}` },
    make("caption", { class: "hidden" }, caption),
    corner,
    make("tbody", {}, body),
  );
  let last = null;
  const set = (values, { signed: both = false, text = two, most = 1, marked = () => false } = {}) => {
    last = [values, { signed: both, text, most, marked }];
    values.forEach((row, i) =>
      row.forEach((value, j) => {
        const rgb = both ? diverging(value / most) : sequential(0.85 * Math.sqrt(Math.min(1, Math.max(0, value / most))));
        const cell = cells[i][j];
        cell.style.background = css(rgb);
        cell.style.color = luminance(rgb) > 0.179 ? "#000" : "#fff"; // 4.5 to 1 at least, on any colour
        cell.textContent = text(value, i, j);
        cell.classList.toggle("apart", marked(i, j));
      }),
    );
  };
  painted(() => last && set(...last));
  return { element, set, cells };
}

// Something that is dragged with a finger or a mouse, or moved with the arrow keys.
// place(): [x, y] now; move([x, y]): go there; step: of a key; range: of x; at(event): where a pointer is, in the same units
function draggable(node, { place, move, at, step, range, label, describe }) {
  node.setAttribute("tabindex", "0");
  node.setAttribute("role", "slider");
  node.setAttribute("aria-label", label);
  node.setAttribute("aria-valuemin", range[0]);
  node.setAttribute("aria-valuemax", range[1]);
  node.classList.add("handle");
  const say = () => {
    node.setAttribute("aria-valuenow", place()[0].toFixed(2));
    node.setAttribute("aria-valuetext", describe());
  };
  // touch-action does not reach parts of an SVG: without this, a finger scrolls the page instead
  node.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  node.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    const follow = (moved) => {
      move(at(moved));
      say();
    };
    const end = () => {
      node.removeEventListener("pointermove", follow);
      node.removeEventListener("pointerup", end);
      node.removeEventListener("pointercancel", end);
    };
    node.addEventListener("pointermove", follow);
    node.addEventListener("pointerup", end);
    node.addEventListener("pointercancel", end);
  });
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  node.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const size = step * (event.shiftKey ? 5 : 1);
    const [x, y] = place();
    move([x + way[0] * size, y + way[1] * size]);
    say();
  });
  say();
  return say;
}

// Where a pointer is in the units of an SVG's view box.
function pointIn(svg, event) {
  const box = svg.getBoundingClientRect();
  const view = svg.viewBox.baseVal;
  return [
    view.x + ((event.clientX - box.left) / box.width) * view.width,
    view.y + ((event.clientY - box.top) / box.height) * view.height,
  ];
}
