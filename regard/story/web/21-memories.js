// Five memories of the same guests, which differ only in the weight of each.

const ORDERS = [
  [0, 1, 2, 3, 4],
  [4, 3, 2, 1, 0],
  [2, 4, 0, 3, 1],
  [1, 0, 4, 2, 3],
];

// weigh(tokens): their weights. order: who comes first; sixth: may the sixth guest come? more: controls of this memory, which call redraw
function memoryFigure(element, { weigh, order = ORDERS[0], sixth = false, most = 1, more = () => [] }) {
  const orders = [order, ...ORDERS.filter((each) => String(each) !== String(order))];
  let turn = 0;
  let six = false;
  const columns = GUESTS.map(() => {
    const fill = make("span", { class: "level" });
    return {
      face: picture(""),
      fill,
      track: make("span", { class: "rail" }, fill),
      value: make("span", { class: "value" }),
      kept: picture(""),
      box: make("div", { class: "arrival", role: "listitem" }),
    };
  });
  columns.forEach(({ face, track, value, kept, box }) => box.append(face, track, value, kept));
  const memory = picture("what is remembered", "large");
  const total = make("p", { class: "total" });
  const said = spoken();
  const guestsNow = () => [...orders[turn].map((k) => GUESTS[k]), ...(six ? [SIXTH] : [])];
  const remembered = (guests) =>
    blend(
      weigh(tokensOf(guests)),
      guests.map((guest) => guest.portrait),
    );
  const compare = () => {
    if (turn === 0) return "This is the order in which they came.";
    const first = remembered([...orders[0].map((k) => GUESTS[k]), ...(six ? [SIXTH] : [])]);
    const change = Math.max(...remembered(guestsNow()).map((x, k) => Math.abs(x - first[k])));
    return change < 1e-9
      ? "Another order, the same memory: no pixel has changed."
      : `Another order, another memory: a pixel has changed by up to ${two(change)}.`;
  };
  const draw = () => {
    const guests = guestsNow();
    const weights = weigh(tokensOf(guests));
    columns.forEach((column, t) => {
      column.box.hidden = t >= guests.length;
      if (t >= guests.length) return;
      const guest = guests[t];
      paintPortrait(column.face, guest);
      column.face.setAttribute("aria-label", guest.name);
      column.fill.style.height = `${100 * Math.min(1, weights[t] / most)}%`;
      column.fill.style.background = css(colourOf(guest));
      column.value.textContent = two(weights[t]);
      const before = guests.slice(0, t + 1);
      paintBlend(column.kept, weigh(tokensOf(before)), before);
      column.kept.setAttribute("aria-label", `memory after the ${guest.name}`);
    });
    paintBlend(memory, weights, guests);
    total.textContent = `weights sum to ${two(sum(weights))}`;
    said.textContent = compare();
  };
  const another = button("Another order", () => {
    turn = (turn + 1) % orders.length;
    draw();
  });
  const joins = sixth
    ? toggle("A sixth guest comes", false, (now) => {
        six = now;
        draw();
      })
    : null;
  refill(
    element,
    make(
      "div",
      { class: "memory" },
      make(
        "div",
        { class: "arrivals", role: "list", "aria-label": "guests in the order they came: portrait, weight, memory after them" },
        columns.map((column) => column.box),
      ),
      make("div", { class: "remembered" }, make("p", { class: "caption" }, "what you remember"), memory, total),
    ),
    controls(more(draw), another, joins),
    said,
  );
  painted(draw);
}

figures.sum = (element) => {
  memoryFigure(element, {
    weigh: memories.composite,
    more: () => {
      const said = make("p", { class: "spoken", role: "status" });
      const input = make("input", { type: "file", accept: "image/*", multiple: true, class: "hidden", id: "photos" });
      const label = make("label", { class: "toggle file", for: "photos" }, "Your own photos");
      const back = button("Portraits again", () => {
        forgetPhotos();
        back.hidden = true;
        said.textContent = "";
        input.value = "";
      });
      back.hidden = true;
      input.addEventListener("change", () =>
        choosePhotos([...input.files], (words) => {
          said.textContent = words;
          back.hidden = photos.length === 0;
        }),
      );
      return [input, label, back, said];
    },
  });
};

figures.fading = (element) => {
  let gamma = 0.6;
  memoryFigure(element, {
    weigh: (tokens) => memories.fading(tokens, gamma),
    more: (draw) =>
      dial("γ", { low: 0.05, high: 1, step: 0.01, now: gamma }, (x) => {
        gamma = x;
        draw();
      }),
  });
};

figures.forgetting = (element) => {
  let loud = 4;
  const gate = () => [3, -loud, 0]; // music opens nothing: it makes the gate close
  memoryFigure(element, {
    order: [1, 4, 0, 2, 3],
    weigh: (tokens) => memories.forgetting(tokens, gate()),
    more: (draw) => {
      const gates = make("p", { class: "aside" });
      const tell = () => {
        gates.textContent = `Gates: ${COMING.map((guest) => `${guest.name} ${two(sigmoid(affine(gate(), guest.token)))}`).join(", ")}.`;
      };
      tell();
      return [
        dial("how much music makes you forget", { low: 0, high: 8, step: 0.1, now: loud }, (x) => {
          loud = x;
          tell();
          draw();
        }),
        gates,
      ];
    },
  });
};

figures.gates = (element) => {
  let asked = 0;
  let strict = 2;
  memoryFigure(element, {
    sixth: true,
    weigh: (tokens) => memories.gated(tokens, [-strict, ...QUERIES[asked].direction.map((x) => 6 * x)]),
    more: (draw) => [
      questions(asked, (k) => {
        asked = k;
        draw();
      }),
      dial("how strict the gates are", { low: -2, high: 6, step: 0.1, now: strict }, (x) => {
        strict = x;
        draw();
      }),
    ],
  });
};

figures.softmax = (element) => {
  let asked = 0;
  let loud = 3;
  memoryFigure(element, {
    sixth: true,
    weigh: (tokens) =>
      memories.softmax(
        tokens,
        QUERIES[asked].direction.map((x) => loud * x),
      ),
    more: (draw) => [
      questions(asked, (k) => {
        asked = k;
        draw();
      }),
      dial("how loudly you ask", { low: 0, high: 12, step: 0.1, now: loud }, (x) => {
        loud = x;
        draw();
      }),
    ],
  });
};
