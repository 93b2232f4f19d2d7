// Pictures: portraits in their guests' colours, or photos that the reader has chosen; they never leave the page.

const PHOTO = 96; // pixels on a side
let photos = []; // of RGB numbers, PHOTO × PHOTO × 3, in the order of the guests

// a portrait as RGB numbers, on the paper of the page
function rgbOf(guest) {
  const photo = photos[guest.number];
  if (photo) return { side: PHOTO, values: photo };
  const [ink, ground] = [colourOf(guest), paper()];
  const values = new Float32Array(3 * FINE * FINE);
  guest.portrait.forEach((p, k) => {
    for (let c = 0; c < 3; c++) values[3 * k + c] = ground[c] + p * (ink[c] - ground[c]);
  });
  return { side: FINE, values };
}

function paintRgb(canvas, side, values) {
  if (canvas.width !== side) [canvas.width, canvas.height] = [side, side];
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  for (let k = 0; k < side * side; k++) {
    for (let c = 0; c < 3; c++) image.data[4 * k + c] = values[3 * k + c];
    image.data[4 * k + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

function paintPortrait(canvas, guest) {
  const { side, values } = rgbOf(guest);
  paintRgb(canvas, side, values);
}

// The memory of guests by their weights, drawn as the mean: the picture says who is in it, a number says how much.
function paintBlend(canvas, weights, guests) {
  const images = guests.map(rgbOf);
  const total = sum(weights);
  if (!images.length || total <= 0) {
    const ground = paper();
    return paintRgb(
      canvas,
      FINE,
      new Float32Array(3 * FINE * FINE).map((_, k) => ground[k % 3]),
    );
  }
  const side = Math.max(...images.map((image) => image.side));
  const shares = weights.map((weight) => weight / total);
  paintRgb(
    canvas,
    side,
    blend(
      shares,
      images.map((image) => enlarge(image, side)),
    ),
  );
}

function enlarge({ side, values }, wanted) {
  if (side === wanted) return values;
  const found = new Float32Array(3 * wanted * wanted);
  for (let i = 0; i < wanted; i++) {
    for (let j = 0; j < wanted; j++) {
      const from = 3 * (Math.floor((i * side) / wanted) * side + Math.floor((j * side) / wanted));
      for (let c = 0; c < 3; c++) found[3 * (i * wanted + j) + c] = values[from + c];
    }
  }
  return found;
}

// ink from 0 to 1 in one colour
function paintInk(canvas, values, colour) {
  const ground = paper();
  const rgb = new Float32Array(3 * values.length);
  values.forEach((p, k) => {
    for (let c = 0; c < 3; c++) rgb[3 * k + c] = ground[c] + Math.min(1, Math.max(0, p)) * (colour[c] - ground[c]);
  });
  paintRgb(canvas, Math.sqrt(values.length), rgb);
}

function picture(words, extra = "") {
  return make("canvas", { class: `picture ${extra}`, width: FINE, height: FINE, role: "img", "aria-label": words });
}

function portrait(guest, extra = "") {
  const canvas = picture(`portrait of the ${guest.name}`, extra);
  painted(() => paintPortrait(canvas, guest));
  return canvas;
}

// A photo, cut to a square from its middle. It is read here, in this page.
async function readPhoto(file) {
  const image = await createImageBitmap(file);
  const side = Math.min(image.width, image.height);
  const canvas = make("canvas", { width: PHOTO, height: PHOTO });
  const context = canvas.getContext("2d");
  context.drawImage(image, (image.width - side) / 2, (image.height - side) / 2, side, side, 0, 0, PHOTO, PHOTO);
  const { data } = context.getImageData(0, 0, PHOTO, PHOTO);
  const values = new Float32Array(3 * PHOTO * PHOTO);
  for (let k = 0; k < PHOTO * PHOTO; k++) for (let c = 0; c < 3; c++) values[3 * k + c] = data[4 * k + c];
  return values;
}

async function choosePhotos(files, say) {
  const found = [];
  const wrong = [];
  for (const file of files) {
    try {
      found.push(await readPhoto(file));
    } catch {
      wrong.push(file.name);
    }
  }
  photos = found.slice(0, GUESTS.length);
  painters.forEach((paint) => paint());
  const unread = wrong.length ? ` ${wrong.join(", ")} cannot be read as an image.` : "";
  const more = found.length > GUESTS.length ? ` Only the first ${GUESTS.length} are used.` : "";
  say(
    found.length
      ? `${photos.length} of your photos take the place of portraits, on this page only.${more}${unread}`
      : unread.trim(),
  );
}

function forgetPhotos() {
  photos = [];
  painters.forEach((paint) => paint());
}
