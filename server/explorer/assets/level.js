// One cluster: its foremost members and the relations among them, as they lie on the map, as large as there is room for.

import { colors, drawCircle, drawLabel, drawMark, drawRelation, layerColor, prepare } from "./drawing.js";

export const MOST = 30;
const MOST_JOINED = 60;

export class LevelView {
  constructor(canvas, hierarchy, { pick }) {
    this.canvas = canvas;
    this.hierarchy = hierarchy;
    this.cluster = 0;
    this.links = [];
    this.marks = new Map();
    this.selected = -1;
    canvas.addEventListener("click", (event) => {
      const found = this.find(event);
      if (found >= 0) pick(found);
    });
    canvas.addEventListener("mousemove", (event) => {
      const found = this.find(event);
      canvas.title = found < 0 ? "" : hierarchy.names[found];
      canvas.style.cursor = found < 0 ? "default" : "pointer";
    });
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  show(cluster, links) {
    this.cluster = cluster;
    this.links = links;
    const { x, y, r } = this.hierarchy;
    const edge = (far, sign, middles) => far(...this.shown().map((place) => middles[place] + sign * r[place]));
    this.frame = { left: edge(Math.min, -1, x), right: edge(Math.max, 1, x), top: edge(Math.min, -1, y), bottom: edge(Math.max, 1, y) };
    this.paint();
  }

  shown() {
    return this.hierarchy.members[this.cluster].slice(0, MOST);
  }

  circle(place) {
    const { x, y, r } = this.hierarchy;
    const { left, top, right, bottom } = this.frame;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const scale = Math.min((width - 24) / (right - left), (height - 70) / (bottom - top));
    return {
      x: width / 2 + (x[place] - (left + right) / 2) * scale,
      y: height / 2 + 14 + (y[place] - (top + bottom) / 2) * scale,
      r: r[place] * scale,
    };
  }

  paint() {
    const { context, width, height } = prepare(this.canvas);
    if (!width || !this.frame) return;
    const { hierarchy, cluster } = this;
    context.fillStyle = layerColor(hierarchy.layers[cluster]);
    context.fillRect(0, 0, width, height);
    const shown = new Set(this.shown());
    const joined = this.links.filter(([from, to]) => shown.has(from) && shown.has(to));
    for (const [from, to, strength] of joined.slice(0, MOST_JOINED)) {
      drawRelation(context, this.circle(from), this.circle(to), strength);
    }
    for (const place of shown) {
      const { x, y, r } = this.circle(place);
      drawCircle(context, x, y, r, layerColor(hierarchy.layers[place]), colors.faint);
      drawLabel(context, hierarchy.names[place], hierarchy.amount(place), x, y, r, r > 70 ? 15 : r > 44 ? 13 : r > 26 ? 11 : 9.5);
    }
    for (const [place, kind] of this.marks) {
      const { x, y, r } = this.circle(place);
      if (shown.has(place)) drawMark(context, kind, x, y, r);
    }
    if (shown.has(this.selected)) {
      const { x, y, r } = this.circle(this.selected);
      drawMark(context, "selected", x, y, r);
    }
  }

  find(event) {
    return (
      this.shown().find((place) => {
        const { x, y, r } = this.circle(place);
        return Math.hypot(event.offsetX - x, event.offsetY - y) <= r;
      }) ?? -1
    );
  }
}
