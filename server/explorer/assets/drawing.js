// What both canvases share: size, colours, circles, lines, labels and marks.

const FONT = "system-ui, sans-serif";

export let colors = null;

// Colours come from the style sheet, so that dark mode holds for what is drawn too.
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  colors = {
    layers: [0, 1, 2, 3, 4].map((layer) => read(`layer-${layer}`)),
    ...Object.fromEntries(
      ["ground", "line", "ink", "faint", "accent", "relation", "seed", "path", "lca"].map((name) => [name, read(name)]),
    ),
  };
}

export function layerColor(layer) {
  return colors.layers[Math.min(layer, colors.layers.length - 1)];
}

// Make the canvas as large as it is shown, and return a context whose unit is a pixel of the page.
export function prepare(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function drawCircle(context, x, y, r, fill, stroke, width = 1) {
  context.beginPath();
  context.arc(x, y, r, 0, 2 * Math.PI);
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (stroke) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.stroke();
  }
}

// A relation between two circles, the wider the larger its λ, but never as wide as what marks a question's path.
export function drawRelation(context, from, to, strength) {
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.lineTo(to.x, to.y);
  context.globalAlpha = 0.2 + Math.min(0.3, 0.05 * Math.log2(strength));
  context.strokeStyle = colors.relation;
  context.lineWidth = Math.min(2.5, 0.6 + 0.3 * Math.log2(strength));
  context.stroke();
  context.globalAlpha = 1;
}

function wrap(context, text, width, most) {
  const lines = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && context.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  lines.push(line);
  const kept = lines.slice(0, most);
  if (lines.length > most) kept[most - 1] += "…";
  return kept.map((each) => shorten(context, each, width));
}

function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = Math.max(1, Math.floor((text.length * width) / context.measureText(text).width) - 1);
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

// The name within a circle, on as many lines as it has room for, and below it, if there is room, what its size says.
export function drawLabel(context, text, amount, x, y, r, size = 12) {
  context.font = `${size}px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const height = size * 1.2;
  const most = Math.max(1, Math.min(4, Math.floor((1.3 * r) / height)));
  const lines = wrap(context, text.slice(0, 120), (most > 1 ? 1.75 : 2.1) * r, most);
  const note = r > 2.4 * size + (lines.length * height) / 2 && context.measureText(amount).width < 1.7 * r;
  const top = y - ((lines.length - 1 + note) / 2) * height;
  context.fillStyle = colors.ink;
  lines.forEach((line, number) => context.fillText(line, x, top + number * height));
  if (!note) return;
  context.font = `${size - 1}px ${FONT}`;
  context.fillStyle = colors.faint;
  context.fillText(amount, x, top + lines.length * height);
}

// The name of an open region, at its top, legible over what the region holds.
export function drawHeading(context, text, x, y, r, size = 12) {
  context.font = `600 ${size}px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const line = shorten(context, text.slice(0, 120), 1.2 * r);
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = colors.ground;
  context.strokeText(line, x, y - r + size);
  context.fillStyle = colors.ink;
  context.fillText(line, x, y - r + size);
}

// Marks of a question differ in shape as well as in colour: a diamond is a seed, two rings an LCA, a thick ring a path.
export function drawMark(context, kind, x, y, r) {
  if (kind === "seed") {
    // On the ring of a circle with room for one, else in its place.
    const half = Math.max(7, Math.min(10, r / 3));
    const middle = r > 12 ? y - r : y;
    if (r > 12) drawCircle(context, x, y, r, null, colors.seed, 3);
    context.beginPath();
    context.moveTo(x, middle - half);
    context.lineTo(x + half, middle);
    context.lineTo(x, middle + half);
    context.lineTo(x - half, middle);
    context.closePath();
    context.fillStyle = colors.seed;
    context.fill();
    context.strokeStyle = colors.ground;
    context.lineWidth = 1.5;
    context.stroke();
  } else if (kind === "lca") {
    drawCircle(context, x, y, r, null, colors.lca, 3);
    drawCircle(context, x, y, r + 5, null, colors.lca, 2);
  } else if (kind === "path") drawCircle(context, x, y, r, null, colors.path, 3);
  else if (kind === "selected") {
    context.setLineDash([6, 4]);
    drawCircle(context, x, y, r + 2, null, colors.ink, 2);
    context.setLineDash([]);
  }
}

// From the edge of a circle to the middle of its cluster, so that no name is crossed out.
export function drawStep(context, from, to) {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length <= from.r) return;
  context.beginPath();
  context.moveTo(from.x + ((to.x - from.x) * from.r) / length, from.y + ((to.y - from.y) * from.r) / length);
  context.lineTo(to.x, to.y);
  context.strokeStyle = colors.path;
  context.lineWidth = 3.5;
  context.stroke();
}
