// Triangles on a canvas, those behind first; the more they stand askew, the darker they are.

const FEW_FACES = 6000;  // so many triangles have their edges drawn

class Surface {
  constructor(canvas, faces) {
    this.canvas = canvas;
    this.faces = faces;
    this.order = Uint32Array.from({ length: faces.length / 3 }, (_, k) => k);
    this.depths = new Float32Array(this.order.length);
  }

  // seen: as the camera gives it; colours: three bytes a corner; scale: pixels of a length of 1
  paint(seen, colours, scale, size) {
    const { faces, order, depths } = this;
    for (let f = 0; f < depths.length; f++) {
      depths[f] = seen.depth[faces[3 * f]] + seen.depth[faces[3 * f + 1]] + seen.depth[faces[3 * f + 2]];
    }
    order.sort((a, b) => depths[b] - depths[a]);
    const context = sharpened(this.canvas);
    context.clearRect(0, 0, size.width, size.height);
    const edges = order.length <= FEW_FACES;
    context.lineWidth = 0.6;
    context.lineJoin = "round";
    const line = dark() ? "rgb(255 255 255 / 0.16)" : "rgb(0 0 0 / 0.16)";
    for (const f of order) {
      const [a, b, c] = [faces[3 * f], faces[3 * f + 1], faces[3 * f + 2]];
      const light = 0.5 + 0.5 * facing(seen, a, b, c, scale);
      const mean = (d) => light * (colours[3 * a + d] + colours[3 * b + d] + colours[3 * c + d]) / 3;
      const fill = `rgb(${mean(0)} ${mean(1)} ${mean(2)})`;
      context.beginPath();
      context.moveTo(seen.x[a], seen.y[a]);
      context.lineTo(seen.x[b], seen.y[b]);
      context.lineTo(seen.x[c], seen.y[c]);
      context.closePath();
      context.fillStyle = fill;
      context.fill();
      context.strokeStyle = fill;  // or hairs of paper show between neighbours
      context.stroke();
      if (!edges) continue;
      context.strokeStyle = line;
      context.stroke();
    }
  }
}

// 1: a triangle is seen straight on, 0: from its edge
function facing(seen, a, b, c, scale) {
  const [ux, uy, uz] = [seen.x[b] - seen.x[a], seen.y[b] - seen.y[a], scale * (seen.depth[b] - seen.depth[a])];
  const [vx, vy, vz] = [seen.x[c] - seen.x[a], seen.y[c] - seen.y[a], scale * (seen.depth[c] - seen.depth[a])];
  const across = Math.abs(ux * vy - uy * vx);
  return across / (Math.hypot(across, uy * vz - uz * vy, uz * vx - ux * vz) || 1);
}
