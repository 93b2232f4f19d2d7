// Lines between tokens: queries on the left, keys on the right, a line as strong as its weight.

const STEP = 20;      // pixels of a token
const LINKS = 12;     // of each query, as long as nobody points at a token
const FAINTEST = 0.01;

// told(side, place) hears which token the reader points at, told(null) that she left
function lines(here, { n, m, rows, columns, name, told, highest = 620 }) {
  const canvas = make("canvas");
  const tall = make("div", { class: "tall" }, canvas);
  const box = make("div", { class: "links", tabindex: "0", role: "application", "aria-roledescription": "lines between tokens", "aria-label": name }, tall);
  const heading = make("div", { class: "axes lines-axes" }, make("span", {}, "queries"), make("span", {}, "keys"));
  const element = make("div", { class: "lines" }, heading, box);
  const shownRows = rows.map((label) => clipped(shown(label), 22));
  const shownColumns = columns.map((label) => clipped(shown(label), 22));
  let [links, change, width, height, room, side, place, pinned, weights] = [[], null, 0, 0, 0, null, null, null, null];
  tall.style.height = `${STEP * Math.max(n, m) + 8}px`;

  function arrange(next) {
    width = next;
    height = Math.min(highest, STEP * Math.max(n, m) + 8);
    box.style.height = `${height}px`;
    width = box.clientWidth;
    room = Math.min(36 + gutter([...rows, ...columns], 130), width * 0.36);  // 36: the figure beside a label
    element.style.setProperty("--room", `${room}px`);
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    paint();
  }

  const y = (k) => 4 + (k + 0.5) * STEP - box.scrollTop;

  function visible() {
    if (side === null) return links;
    const most = side === "query" ? m : n;
    return weights.of(side, place, most).map(([other, weight]) => (side === "query" ? [place, other, weight] : [other, place, weight]));
  }

  function paint() {
    if (!width || !weights) return;
    const context = canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    const style = getComputedStyle(element);
    const [ink, muted] = [style.color, getComputedStyle(heading).color];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const [from, to] = [room, width - room];
    const colour = sequential(dark() ? 0.78 : 0.72);
    const received = new Map();
    context.lineCap = "round";
    for (const [i, j, weight] of visible()) {
      const [a, b] = [y(i), y(j)];
      received.set(side === "key" ? i : j, weight);
      if (Math.max(a, b) < -STEP || Math.min(a, b) > height + STEP) continue;
      const amount = change ? change(i, j) : weight;
      context.strokeStyle = change ? css(diverging(amount < 0 ? -1 : 1)) : css(colour);
      context.globalAlpha = Math.min(1, Math.abs(amount) ** 0.75 + 0.02);
      context.lineWidth = 0.8 + 2.2 * Math.abs(amount);
      context.beginPath();
      context.moveTo(from + 4, a);
      context.bezierCurveTo(from + (to - from) * 0.42, a, to - (to - from) * 0.42, b, to - 4, b);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.font = tokenFont(12);
    context.textBaseline = "middle";
    const fitted = (text, space) => {
      let short = text;
      while (short.length > 1 && context.measureText(short).width > space) short = `${[...short].slice(0, -2).join("")}…`;
      return short;
    };
    const column = (labels, isQuery) => {
      const mine = side === (isQuery ? "query" : "key");
      const other = side !== null && !mine;
      for (let k = Math.max(0, Math.floor((box.scrollTop - STEP) / STEP)); k < labels.length && y(k) < height + STEP; k++) {
        const weight = other ? received.get(k) ?? 0 : 0;
        const strong = mine && k === place;
        if (other && weight > 0) {
          context.fillStyle = css(colour, Math.min(0.5, 0.6 * Math.sqrt(weight)));
          context.fillRect(isQuery ? 2 : to, y(k) - STEP / 2 + 1, room - 2, STEP - 2);
        }
        if (strong) {
          context.fillStyle = css(colour, 0.3);
          context.fillRect(isQuery ? 2 : to, y(k) - STEP / 2 + 1, room - 2, STEP - 2);
        }
        const figure = other && weight >= 0.005 ? weight.toFixed(2).replace(/^0/, "") : "";
        context.fillStyle = side === null || strong || weight >= FAINTEST ? ink : muted;
        context.textAlign = isQuery ? "right" : "left";
        context.fillText(fitted(labels[k], room - 12 - (figure ? 28 : 0)), isQuery ? from - 4 : to + 4, y(k));
        if (figure) {
          context.textAlign = isQuery ? "left" : "right";
          context.fillText(figure, isQuery ? 6 : width - 4, y(k));
        }
      }
    };
    column(shownRows, true);
    column(shownColumns, false);
  }

  function point(nextSide, nextPlace) {
    if (side === nextSide && place === nextPlace) return;
    [side, place] = [nextSide, nextPlace];
    paint();
    told(side, place);
  }

  function under(event) {
    const area = box.getBoundingClientRect();
    const k = Math.floor((event.clientY - area.top + box.scrollTop - 4) / STEP);
    const nextSide = event.clientX - area.left < width / 2 ? "query" : "key";
    return k >= 0 && k < (nextSide === "query" ? n : m) ? [nextSide, k] : [null, null];
  }

  const home = () => point(...(pinned ?? [null, null]));
  box.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(...under(event)));
  box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && home());
  box.addEventListener("click", (event) => {
    const next = under(event);
    pinned = next[0] === null || (pinned && pinned[0] === next[0] && pinned[1] === next[1]) ? null : next;
    point(...(pinned ?? [null, null]));
  });
  box.addEventListener("scroll", paint);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      pinned = null;
      home();
      return;
    }
    const far = event.shiftKey ? 10 : 1;
    const step = { ArrowUp: -far, ArrowDown: far, Home: -Infinity, End: Infinity }[event.key];
    const nextSide = { ArrowLeft: "query", ArrowRight: "key" }[event.key] ?? side ?? "query";
    if (step === undefined && !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    const last = (nextSide === "query" ? n : m) - 1;
    const next = side === null ? 0 : Math.min(last, Math.max(0, place + (step ?? 0)));
    pinned = [nextSide, next];
    if (y(next) < STEP) box.scrollTop -= STEP - y(next);
    if (y(next) > height - STEP) box.scrollTop += y(next) - height + STEP;
    home();
  });
  here.sized(element, arrange);
  here.painters.push(paint);

  return {
    element,
    // difference(i, j): what has changed, or null when nothing is compared
    show(next, difference) {
      [weights, change] = [next, difference];
      links = [];
      for (let i = 0; i < n; i++) for (const [j, weight] of weights.of("query", i, LINKS)) if (weight >= FAINTEST) links.push([i, j, weight]);
      links.sort((a, b) => a[2] - b[2]);  // strong lines lie on top
      paint();
    },
    mark(nextSide, nextPlace) {
      [side, place] = nextSide === null ? pinned ?? [null, null] : [nextSide, nextPlace];
      if (nextSide !== null && (y(place) < 0 || y(place) > height)) box.scrollTop = Math.max(0, (place + 0.5) * STEP - height / 2);
      paint();
    },
  };
}
