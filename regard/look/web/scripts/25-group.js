// A group of what is drawn in a space: chosen with a rectangle, one by one, or by writing its names into a field.

class GroupChooser {
  // seen: where things are; field: how a group is written and read; painted(): draw it; asked(): a group was drawn
  constructor(frame, { seen, write, read, painted, placeholder, thing }) {
    Object.assign(this, { frame, seen, write, read, painted, places: new Set(), on: false });
    this.box = make("div", { class: "group-box", hidden: true });
    frame.append(this.box);
    this.toggle = toggle(`choose ${thing}s`, false, (down) => {
      this.on = down;
      frame.classList.toggle("choosing", down);
    }, { title: "then drag over some, or click them one by one; in the picture, space adds the one that is marked" });
    this.field = make("input", { type: "text", class: "group-field", placeholder, "aria-label": `the ${thing}s to leave out` });
    this.field.addEventListener("change", () => this.typed());
    this.none = make("button", { type: "button", class: "toggle", onclick: () => this.set([]) }, "none");
    this.controls = [this.toggle, this.field, this.none];
    for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) {
      frame.addEventListener(name, (event) => this.on && this.dragged(event), { capture: true });
    }
  }

  typed() {
    const found = this.read(this.field.value);
    this.field.setAttribute("aria-invalid", String(found === null));
    if (found !== null) this.set(found, false);
  }

  set(places, write = true) {
    this.places = new Set(places);
    if (write) this.field.value = this.write([...this.places]);
    this.field.removeAttribute("aria-invalid");
    this.painted();
  }

  flip(k) {
    if (k === null) return;
    const next = new Set(this.places);
    if (!next.delete(k)) next.add(k);
    this.set(next);
  }

  at(event) {
    const box = this.frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  dragged(event) {
    if (event.button > 0) return;
    event.stopImmediatePropagation();
    const [x, y] = this.at(event);
    if (event.type === "pointerdown") {
      this.start = [x, y];
      this.frame.setPointerCapture(event.pointerId);
      return;
    }
    if (!this.start) return;
    const [left, right] = [Math.min(x, this.start[0]), Math.max(x, this.start[0])];
    const [top, bottom] = [Math.min(y, this.start[1]), Math.max(y, this.start[1])];
    const large = right - left > 4 || bottom - top > 4;
    Object.assign(this.box.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    this.box.hidden = event.type !== "pointermove" || !large;
    if (event.type === "pointermove") return;
    this.start = null;
    if (event.type === "pointercancel") return;
    if (!large) {
      this.flip(nearestSeen(this.seen(), x, y, 18));
      return;
    }
    const found = new Set(this.places);
    const { x: xs, y: ys } = this.seen();
    for (let k = 0; k < xs.length; k++) if (xs[k] >= left && xs[k] <= right && ys[k] >= top && ys[k] <= bottom) found.add(k);
    this.set(found);
  }
}

// Crosses on what is to be left out.
function paintGroup(context, { x, y }, places, radius) {
  context.strokeStyle = css(dark() ? oklch(0.78, 0.16, 40) : oklch(0.58, 0.2, 35));
  context.lineWidth = 2.2;
  for (const k of places) {
    context.beginPath();
    context.moveTo(x[k] - radius, y[k] - radius);
    context.lineTo(x[k] + radius, y[k] + radius);
    context.moveTo(x[k] + radius, y[k] - radius);
    context.lineTo(x[k] - radius, y[k] + radius);
    context.stroke();
  }
}
