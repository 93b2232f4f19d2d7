// Tokens that can be dragged, or chosen and moved with the arrow keys.
function tokenChips(place, labels, move) {
  const chosenChip = Number(place.dataset.chosen ?? -1);
  const had = place.contains(document.activeElement);
  let dragged = null;
  const chips = labels.map((label, k) => {
    const chip = make("button", {
      type: "button", class: "chip", draggable: "true", "aria-pressed": String(k === chosenChip),
      title: "drag, or choose it and press ← or →",
    }, token(label));
    chip.addEventListener("click", () => {
      place.dataset.chosen = String(place.dataset.chosen === String(k) ? -1 : k);
      const pressed = (other) => String(String(other) === place.dataset.chosen);
      for (const [other, each] of chips.entries()) each.setAttribute("aria-pressed", pressed(other));
    });
    chip.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      if (place.dataset.chosen === String(k)) move(k, k + step);
      else chips[k + step]?.focus();
    });
    chip.addEventListener("dragstart", (event) => {
      dragged = k;
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", label);
    });
    chip.addEventListener("dragover", (event) => dragged !== null && event.preventDefault());
    chip.addEventListener("drop", (event) => {
      event.preventDefault();
      if (dragged !== null) move(dragged, k);
    });
    return chip;
  });
  refill(place, chips);
  if (had) chips[chosenChip]?.focus();
}
