// A text whose tokens are shaded and can be pointed at.

// labels: as they are shown. shade(k) -> colour or null.
// told(k) hears which token is pointed at, and when the pointer leaves the one that was clicked, or null.
function shadedText(here, labels, { shade, told, name, now = null }) {
  let pinned = now;
  const pieces = labels.map((label, k) => (
    make("span", { class: "piece", role: "option", id: freshName("piece"), "data-place": k }, label)));
  const element = make("div", { class: "shaded-text", role: "listbox", tabindex: "0", "aria-label": name },
    pieces.map((piece, k) => [piece, labels[k].includes("↵") ? make("br") : null]));

  function mark(k) {
    for (const [other, piece] of pieces.entries()) piece.setAttribute("aria-selected", String(other === k));
    if (k === null) element.removeAttribute("aria-activedescendant");
    else element.setAttribute("aria-activedescendant", pieces[k].id);
  }

  function point(k) {
    mark(k);
    told(k);
  }

  function under(event) {
    const piece = event.target.closest(".piece");
    return piece ? Number(piece.dataset.place) : null;
  }

  element.addEventListener("pointerover", (event) => event.pointerType === "mouse" && under(event) !== null && point(under(event)));
  element.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(pinned));
  element.addEventListener("click", (event) => {
    if (under(event) === null) return;
    pinned = under(event);
    point(pinned);
  });
  element.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step) return;
    event.preventDefault();
    pinned = Math.min(labels.length - 1, Math.max(0, (pinned ?? -1) + step[0] + step[1]));
    pieces[pinned].scrollIntoView({ block: "nearest" });
    point(pinned);
  });
  here.paint(() => {
    for (const [k, piece] of pieces.entries()) {
      const colour = shade(k);
      piece.style.background = colour ? css(colour) : "none";
      piece.style.color = colour ? legible(colour) : "inherit";
    }
  });
  mark(pinned);
  return element;
}

// As strong as a shade may be under text.
const underText = (t) => sequential(0.62 * t);
