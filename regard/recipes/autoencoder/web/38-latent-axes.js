// The axes of the latent space: ticks and σ of the prior on the map, directions in space.

// ticks, and 1, 2 and 3 σ of the prior
function paintLatentAxes(map, context, style) {
  const { part } = map;
  const { width, height } = map.size;
  Object.assign(context, { font: "11px system-ui, sans-serif", fillStyle: style.textDecorationColor });
  const xs = ticks(map.under(0, 0)[0], map.under(width, 0)[0], Math.max(2, width / 90));
  // text is read over what is decoded, too
  const write = (words, x, y, align = "left") => {
    Object.assign(context, { textAlign: align, strokeStyle: style.backgroundColor, lineWidth: 4, lineJoin: "round" });
    context.strokeText(words, x, y);
    context.fillText(words, x, y);
  };
  for (const value of xs) write(tickText(value, xs), map.pixel([value, 0])[0], height - 5, "center");
  write(part.axes[0], width - 6, height - 18, "right");
  if (map.dims > 1) {
    const ys = ticks(map.under(0, height)[1], map.under(0, 0)[1], Math.max(2, height / 70));
    for (const value of ys) write(tickText(value, ys), 5, map.pixel([0, value])[1] + 4);
    write(part.axes[1], 24, 14);
  }
  if (!part.variational) return;
  const [x, y] = map.pixel(part.origin);
  for (const sigmas of [1, 2, 3]) {
    Object.assign(context, { strokeStyle: style.caretColor, lineWidth: 1 });
    context.setLineDash(sigmas === 3 ? [] : [3, 4]);
    context.beginPath();
    if (map.dims === 1) {
      for (const side of [-1, 1]) {
        context.moveTo(x + side * sigmas * map.scale, 0);
        context.lineTo(x + side * sigmas * map.scale, height - 20);
      }
    } else context.arc(x, y, sigmas * map.scale, 0, 7);
    context.stroke();
    context.setLineDash([]);
    write(`${sigmas} σ`, x + (map.dims === 1 ? sigmas * map.scale + 3 : 4), map.dims === 1 ? 12 : y - sigmas * map.scale - 3);
  }
}

// in space: from 0 along each axis, to 3 σ of the prior if there is one
function paintDirections(map, context, style) {
  const step = map.part.variational ? 3 : map.radius / 2;
  const { origin } = map.part;
  const [x, y] = map.seenAt(origin);
  Object.assign(context, { strokeStyle: style.caretColor, fillStyle: style.textDecorationColor, lineWidth: 1, font: "11px system-ui, sans-serif" });
  map.part.axes.forEach((name, i) => {
    const [a, b] = map.seenAt(origin.map((value, k) => value + (k === i ? step : 0)));
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(a, b);
    context.stroke();
    context.fillText(`${name} = ${three(step)}`, a + 4, b + 3);
  });
}
