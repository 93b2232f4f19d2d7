// Who comes: portraits with their two numbers.

figures.guests = (element) => {
  const cards = COMING.map((guest) => {
    const [music, science] = guest.token;
    return make(
      "li",
      {},
      portrait(guest),
      make("strong", {}, guest.name),
      make("span", {}, `music ${two(music)}`),
      make("span", {}, `science ${two(science)}`),
    );
  });
  refill(element, make("ul", { class: "guests" }, cards));
};
