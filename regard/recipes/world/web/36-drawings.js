// Worlds that are drawn as they are: a cart with a pole, a pendulum, and images. Everything is in units of a 300 × 200 picture.

const DRAWINGS = { "cart-pole": cartPole, pendulum };

// A picture of one observation, and faintly behind it that of another one. drawing: {name, at: places of its numbers}
function worldDrawing(drawing, words) {
  if (drawing?.name === "image") return imageDrawing(drawing, words);
  if (!drawing || !DRAWINGS[drawing.name]) return null;
  const parts = (observation) => DRAWINGS[drawing.name](...drawing.at.map((k) => observation[k]));
  const ghost = makeSvg("g", { class: "ghost" });
  const body = makeSvg("g", {});
  const element = makeSvg("svg", { class: "world-drawing", viewBox: "0 0 300 200", role: "img", "aria-label": words }, ghost, body);
  return {
    element,
    show(observation, other = null) {
      refill(body, observation ? parts(observation) : null);
      refill(ghost, other ? parts(other) : null);
    },
  };
}

// An image that comes with an observation: bytes, row by row, the channels of a pixel together.
function imageDrawing({ side, colours }, words) {
  const element = make("canvas", { class: "world-drawing world-image", width: side, height: side, role: "img", "aria-label": words });
  const pen = element.getContext("2d");
  return {
    element,
    show(observation) {
      const shownImage = pen.createImageData(side, side);
      const bytes = observation?.image;
      for (let k = 0; bytes && k < side * side; k++) {
        const [red, green, blue] = [0, 1, 2].map((c) => bytes[k * colours + (colours > 2 ? c : 0)]);
        shownImage.data.set([red, green, blue, 255], 4 * k);
      }
      pen.putImageData(shownImage, 0, 0);
    },
  };
}

// position from −2.4 to 2.4, the angle from upright
function cartPole(position, angle) {
  if (![position, angle].every(Number.isFinite)) return [];
  const [ground, length] = [160, 90];
  const middle = 150 + (Math.min(3, Math.max(-3, position)) / 2.4) * 116;
  const [x, y] = [middle + length * Math.sin(angle), ground - 14 - length * Math.cos(angle)];
  return [
    makeSvg("line", { class: "rail", x1: 6, x2: 294, y1: ground, y2: ground }),
    [34, 266].map((end) => makeSvg("line", { class: "rail", x1: end, x2: end, y1: ground - 5, y2: ground + 5 })),
    makeSvg("rect", { class: "solid", x: middle - 21, y: ground - 14, width: 42, height: 20, rx: 3 }),
    makeSvg("line", { class: "rod", x1: middle, y1: ground - 14, x2: x, y2: y }),
    makeSvg("circle", { class: "joint", cx: middle, cy: ground - 14, r: 3.5 }),
  ];
}

// cosine and sine of the angle from upright
function pendulum(cosine, sine) {
  if (![cosine, sine].every(Number.isFinite)) return [];
  const [length, angle] = [78, Math.atan2(sine, cosine)];
  return [
    makeSvg("line", { class: "rail", x1: 150, x2: 150, y1: 8, y2: 18 }),
    makeSvg("line", { class: "rod", x1: 150, y1: 100, x2: 150 - length * Math.sin(angle), y2: 100 - length * Math.cos(angle) }),
    makeSvg("circle", { class: "solid", cx: 150, cy: 100, r: 6 }),
  ];
}
