// Guests on seats. Move one, and see whose answer changes.

const POSITIONS = [
  ["none", "no positions"],
  ["sinusoidal", "sines added to tokens"],
  ["rotary", "angles of queries and keys"],
];

// What each guest hears, by seats. Tokens are queries, keys and values; a position acts on them.
function heard(guests, position) {
  const x = guests.map((guest, seat) => {
    const code = position === "sinusoidal" ? sinusoidal(seat, 2) : [0, 0];
    return guest.token.map((value, k) => 2 * value + code[k]);
  });
  const turned = position === "rotary" ? x.map((token, seat) => rotate(token, seat)) : x;
  return attend(turned, turned, x);
}

figures.positions = (element) => {
  let position = "none";
  let order = [...COMING];
  const list = make("ol", { class: "seats", "aria-label": "seats, from left to right" });
  const said = spoken();
  const items = new Map(
    COMING.map((guest) => {
      const hears = make("span", { class: "hears" });
      const change = make("span", { class: "change" });
      const node = make(
        "button",
        { type: "button", class: "seat-card", "aria-label": `${guest.name}: move with the left and right arrow keys, or drag` },
        portrait(guest),
        hears,
        change,
      );
      return [guest, { node, hears, change, item: make("li", {}, node) }];
    }),
  );
  const draw = () => {
    const before = heard(COMING, position);
    const now = heard(order, position);
    const changes = order.map((guest, seat) => Math.max(...now[seat].map((x, k) => Math.abs(x - before[guest.number][k]))));
    const moved = order.some((guest, k) => guest !== COMING[k]);
    order.forEach((guest, seat) => {
      const { hears, change } = items.get(guest);
      hears.textContent = now[seat].map(two).join(" ");
      change.textContent = changes[seat] < 1e-9 ? (moved ? "same" : "–") : `± ${two(changes[seat])}`;
      change.classList.toggle("changed", changes[seat] >= 1e-9);
    });
    const most = Math.max(...changes);
    const pooled = (rows) =>
      blend(
        rows.map(() => 1 / rows.length),
        rows,
      );
    const pool = Math.max(...pooled(now).map((x, k) => Math.abs(x - pooled(before)[k])));
    if (!moved) said.textContent = "Move a guest to another seat.";
    else if (most < 1e-9)
      said.textContent =
        "Seats have changed, and nobody hears anything new: the answers moved along. Their mean has not changed at all.";
    else said.textContent = `Seats have changed, and answers with them: by up to ${two(most)}, their mean by ${two(pool)}.`;
  };
  const arrange = () => {
    const focused = document.activeElement;
    list.append(...order.map((guest) => items.get(guest).item));
    if (list.contains(focused)) focused.focus({ preventScroll: true });
    draw();
  };
  const moveTo = (guest, seat) => {
    const place = Math.min(order.length - 1, Math.max(0, seat));
    if (order.indexOf(guest) === place) return;
    order = order.filter((each) => each !== guest);
    order.splice(place, 0, guest);
    arrange();
  };
  for (const [guest, { node }] of items) {
    node.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way) return;
      event.preventDefault();
      moveTo(guest, order.indexOf(guest) + way);
    });
    node.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      node.focus({ preventScroll: true });
      const follow = (moved) => {
        const box = list.getBoundingClientRect();
        moveTo(guest, Math.floor(((moved.clientX - box.left) / box.width) * order.length));
      };
      const end = () => {
        node.classList.remove("held");
        removeEventListener("pointermove", follow);
        removeEventListener("pointerup", end);
        removeEventListener("pointercancel", end);
      };
      node.classList.add("held");
      addEventListener("pointermove", follow);
      addEventListener("pointerup", end);
      addEventListener("pointercancel", end);
    });
  }
  refill(
    element,
    controls(
      choice("positions", POSITIONS, position, (chosen) => {
        position = chosen;
        draw();
      }),
    ),
    list,
    controls(
      button("First order again", () => {
        order = [...COMING];
        arrange();
      }),
    ),
    said,
  );
  arrange();
};
