// A rectangle of the image, drawn with the pointer or written into fields, and what the prediction loses without it.

// picture: the element that holds the image, in which boxes are drawn
function imageRegion(here, picture) {
  const [height, width] = here.page.data.region.size;
  const now = make("div", { class: "region-box now", hidden: true });
  const others = make("div", { class: "region-boxes", "aria-hidden": "true" });
  let [box, start, touch] = [null, null, false];  // box: top, left, bottom, right in pixels
  const fields = [
    ["first row", height], ["last row", height], ["first column", width], ["last column", width],
  ].map(([words, most]) => placeField(`${words} of the region`, most, () => typed()));
  const [top, bottom, left, right] = fields;
  [top.placeholder, bottom.placeholder, left.placeholder, right.placeholder] = ["1", String(height), "1", String(width)];
  const byFinger = toggle("draw with a finger", false, (down) => {
    touch = down;
    picture.classList.toggle("drawing", down);
  }, { class: "toggle by-finger", title: "then the page does not scroll where the image is" });
  const panel = new RegionPanel(here, {
    title: "Without a region",
    chosen: () => box,
    said: ([a, b, c, d]) => `rows ${nth(a)}–${whole(c)}, columns ${nth(b)}–${whole(d)} (${percent(((c - a) * (d - b)) / (height * width))} of the image)`,
    controls: [make("span", { class: "places" }, "drag over the image, or: rows ", top, " to ", bottom, " columns ", left, " to ", right), byFinger],
    changed: (list) => refill(others, list.map(({ region }, k) => placed(make("div", { class: "region-box" }, make("span", {}, nth(k))), region))),
  });
  if (!here.page.data.live) return panel.element;
  picture.append(others, now);

  function placed(element, [a, b, c, d]) {
    const part = (value, all) => `${(100 * value) / all}%`;
    Object.assign(element.style, { top: part(a, height), left: part(b, width), height: part(c - a, height), width: part(d - b, width) });
    return element;
  }

  // written: what was drawn is also written into the fields; what is being typed stays as it is
  function show(written) {
    now.hidden = box === null;
    if (box === null) return;
    placed(now, box);
    if (written) [top.value, left.value, bottom.value, right.value] = [box[0] + 1, box[1] + 1, box[2], box[3]];
  }

  // what is not written is the whole height, or the whole width
  function typed() {
    const read = (field, otherwise) => (field.value === "" ? otherwise : Math.round(Number(field.value)));
    const inside = (value, most) => Math.min(most, Math.max(1, value));
    const [a, c] = [inside(read(top, 1), height), inside(read(bottom, height), height)].sort((x, y) => x - y);
    const [b, d] = [inside(read(left, 1), width), inside(read(right, width), width)].sort((x, y) => x - y);
    box = [a - 1, b - 1, c, d];
    show(false);
  }
  for (const field of fields) field.addEventListener("keydown", (event) => event.key === "Enter" && (typed(), panel.ask()));

  // the pixel under the pointer
  function under(event) {
    const frame = picture.getBoundingClientRect();
    const inside = (part, all) => Math.min(all - 1, Math.max(0, Math.floor(part * all)));
    return [inside((event.clientY - frame.top) / frame.height, height), inside((event.clientX - frame.left) / frame.width, width)];
  }
  picture.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || (event.pointerType !== "mouse" && !touch)) return;
    event.preventDefault();
    picture.focus({ preventScroll: true });
    start = { at: under(event), x: event.clientX, y: event.clientY, far: false };
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!start) return;
    start.far ||= Math.hypot(event.clientX - start.x, event.clientY - start.y) > 5;  // else it is a click on a patch
    if (!start.far) return;
    const [i, j] = under(event);
    const [k, l] = start.at;
    box = [Math.min(i, k), Math.min(j, l), Math.max(i, k) + 1, Math.max(j, l) + 1];
    show(true);
  });
  const ended = (event) => {
    const drawn = start?.far && event.type === "pointerup";
    start = null;
    if (drawn) panel.ask();
  };
  picture.addEventListener("pointerup", ended);
  picture.addEventListener("pointercancel", ended);
  return panel.element;
}
