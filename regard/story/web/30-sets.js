// A party as a number: its digits say who is there.

const MOST = 4; // copies of a guest

figures.sets = (element) => {
  const counts = GUESTS.map((_, k) => (k === 0 || k === 2 ? 1 : 0));
  let base = 4;
  const said = spoken();
  const written = make("p", { class: "code-number" });
  const width = graphWidth();
  const line = makeSvg("svg", { viewBox: `0 0 ${width} 46`, class: "graph number-line", role: "img" });
  const cards = GUESTS.map((guest, k) => {
    const number = make("span", { class: "count" });
    const change = (by) => {
      counts[k] = Math.min(MOST, Math.max(0, counts[k] + by));
      draw();
    };
    const fewer = make(
      "button",
      { type: "button", class: "nudge", "aria-label": `one ${guest.name} fewer`, onclick: () => change(-1) },
      "−",
    );
    const more = make(
      "button",
      { type: "button", class: "nudge", "aria-label": `one ${guest.name} more`, onclick: () => change(1) },
      "+",
    );
    const card = make("li", {}, portrait(guest), make("span", { class: "steps" }, fewer, number, more));
    return { card, number, fewer, more };
  });
  const party = (found) => {
    const names = found
      .map((count, k) => (count === 0 ? "" : `${count > 1 ? `${count} × ` : ""}${short(GUESTS[k])}`))
      .filter(Boolean);
    return names.length ? names.join(", ") : "nobody";
  };
  const draw = () => {
    cards.forEach(({ card, number, fewer, more }, k) => {
      number.textContent = counts[k];
      card.classList.toggle("away", counts[k] === 0);
      fewer.setAttribute("aria-disabled", counts[k] === 0); // not disabled: the focus stays where it is
      more.setAttribute("aria-disabled", counts[k] === MOST);
    });
    const places = GUESTS.length;
    const code = codeOf(counts, base);
    const { whole: carried, digits } = digitsOf(code, base, places);
    const spans = digits.map((digit, k) => {
      const span = make("span", { class: "digit" }, String(digit));
      span.style.borderColor = css(colourOf(GUESTS[k]));
      return span;
    });
    refill(
      written,
      make("span", { class: "quiet" }, `in base ${base}: `),
      make("span", { class: "digits" }, `${carried}.`, spans),
      make("span", { class: "quiet" }, " = "),
      make("span", {}, fraction(code, base, places)),
    );
    const same = carried === 0 && digits.every((digit, k) => digit === counts[k]);
    said.textContent = same
      ? `The digits say who is there: ${party(digits)}.`
      : `A count of ${Math.max(...counts)} is too much for base ${base}: ${carried ? "the number is 1 or more, and " : ""}the digits read ${party(digits)}. Two parties have one number.`;
    said.classList.toggle("bad", !same);
    // every set of six guests without copies, scaled to one length
    const longest = Number(
      codeOf(
        GUESTS.map(() => 1),
        base,
      ),
    );
    const at = (value) => 10 + ((width - 20) * Number(value)) / longest;
    const marks = Array.from({ length: 2 ** places }, (_, set) =>
      at(
        codeOf(
          GUESTS.map((_, k) => (set >> (places - 1 - k)) & 1),
          base,
        ),
      ),
    );
    refill(
      line,
      marks.map((x) => makeSvg("line", { x1: x, x2: x, y1: 8, y2: 26, class: "set-mark" })),
      Number(code) <= longest ? makeSvg("path", { d: `M ${at(code)} 28 l 6 12 h -12 Z`, class: "pointer" }) : null,
    );
    line.setAttribute(
      "aria-label",
      `all ${2 ** places} sets of guests on a line, in base ${base}; this party is ${Number(code) <= longest ? `${percent(Number(code) / longest)} of the way along` : "beyond its end"}`,
    );
  };
  refill(
    element,
    make(
      "ul",
      { class: "party" },
      cards.map((each) => each.card),
    ),
    controls(
      choice(
        "the base",
        [2, 3, 4, 5].map((each) => [String(each), `base ${each}`]),
        String(base),
        (chosen) => {
          base = Number(chosen);
          draw();
        },
      ),
    ),
    written,
    said,
    make(
      "p",
      { class: "caption graph-title" },
      "Every set of six guests is a mark on this line; the gaps are wider in a larger base",
    ),
    line,
  );
  painted(draw);
};
