// All layers as regions within regions. Only what is in view and large enough to see is drawn: a region opens, and shows
// its members and their relations, once it is large on the screen.

import { colors, drawCircle, drawHeading, drawLabel, drawMark, drawRelation, drawStep, layerColor, prepare } from "./drawing.js";

const OPEN = 56; // pixels of radius from which on a region shows its members
const LABELLED = 20;
const MOST_LABELS = 60;
const MOST_LINES = 80;

export class MapView {
  constructor(canvas, hierarchy, { pick, need }) {
    this.canvas = canvas;
    this.hierarchy = hierarchy;
    this.need = need;
    this.across = []; // by layer: [from, to, λ], strongest first
    this.within = new Map(); // by cluster of entities
    this.marks = new Map();
    this.steps = [];
    this.selected = -1;
    this.transform = d3.zoomIdentity;
    this.zoom = d3
      .zoom()
      .extent(() => [[0, 0], [canvas.clientWidth, canvas.clientHeight]])
      .scaleExtent([0.7, 0.5 / hierarchy.r.reduce((least, r) => Math.min(least, r), 1)])
      .on("zoom", ({ transform }) => {
        this.transform = transform;
        this.schedule();
      });
    this.selection = d3.select(canvas).call(this.zoom).on("dblclick.zoom", null);
    canvas.addEventListener("click", (event) => {
      const found = this.find(event.offsetX, event.offsetY);
      if (found >= 0) pick(found);
    });
    canvas.addEventListener("mousemove", (event) => {
      const found = this.find(event.offsetX, event.offsetY);
      canvas.title = found < 0 ? "" : hierarchy.names[found];
    });
    canvas.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.schedule()).observe(canvas);
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  get scale() {
    return 0.48 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight);
  }

  circle(place) {
    const { x, y, r } = this.hierarchy;
    const { scale } = this;
    const [left, top] = this.transform.apply([this.canvas.clientWidth / 2 + x[place] * scale, this.canvas.clientHeight / 2 + y[place] * scale]);
    return { x: left, y: top, r: r[place] * scale * this.transform.k };
  }

  isInView({ x, y, r }) {
    return x + r > 0 && y + r > 0 && x - r < this.canvas.clientWidth && y - r < this.canvas.clientHeight;
  }

  isOpen(place, r) {
    return r > OPEN && this.hierarchy.members[place].length > 0;
  }

  // Call visit with each entity that is in view, a cluster before its members.
  walk(visit) {
    const waiting = [0];
    while (waiting.length) {
      const place = waiting.pop();
      const circle = this.circle(place);
      if (circle.r < 0.7 || !this.isInView(circle)) continue;
      const open = this.isOpen(place, circle.r);
      visit(place, circle, open);
      if (open) waiting.push(...this.hierarchy.members[place]);
    }
  }

  paint() {
    const { context, width } = prepare(this.canvas);
    if (!width) return;
    const { hierarchy } = this;
    const regions = [];
    const closed = new Map();
    this.walk((place, circle, open) => {
      if (open) {
        regions.push([place, circle]);
        drawCircle(context, circle.x, circle.y, circle.r, layerColor(hierarchy.layers[place]), colors.line);
      } else closed.set(place, circle);
    });
    this.paintRelations(context, regions, closed);
    for (const [place, { x, y, r }] of closed) drawCircle(context, x, y, r, layerColor(hierarchy.layers[place]), r > 3 ? colors.faint : null);
    const named = [...closed].filter(([, { r }]) => r > LABELLED).sort((a, b) => b[1].r - a[1].r);
    for (const [place, { x, y, r }] of named.slice(0, MOST_LABELS)) drawLabel(context, hierarchy.names[place], hierarchy.amount(place), x, y, r, 11);
    for (const [place, { x, y, r }] of regions) if (r > 2 * OPEN) drawHeading(context, hierarchy.names[place], x, y, r);
    this.paintMarks(context);
  }

  paintRelations(context, regions, closed) {
    let left = MOST_LINES;
    const draw = ([from, to, strength]) => {
      const [start, end] = [closed.get(from), closed.get(to)];
      if (!start || !end || left-- <= 0) return;
      drawRelation(context, start, end, strength);
    };
    this.across.forEach((links) => links.forEach(draw));
    for (const [place] of regions) {
      if (this.hierarchy.layers[place] !== 1) continue;
      if (this.within.has(place)) this.within.get(place).forEach(draw);
      else if (regions.length < 40) this.need(place);
    }
  }

  paintMarks(context) {
    for (const [from, to] of this.steps) drawStep(context, this.circle(from), this.circle(to));
    for (const [place, kind] of this.marks) this.paintMark(context, kind, place);
    if (this.selected > 0) this.paintMark(context, "selected", this.selected);
  }

  paintMark(context, kind, place) {
    const circle = this.circle(place);
    if (this.isInView(circle)) drawMark(context, kind, circle.x, circle.y, Math.max(circle.r, 4));
  }

  // The innermost entity that is drawn at a place of the canvas, -1 if there is none.
  find(x, y) {
    let found = -1;
    this.walk((place, circle) => {
      if (Math.hypot(x - circle.x, y - circle.y) > circle.r) return;
      if (found < 0 || this.hierarchy.layers[place] < this.hierarchy.layers[found]) found = place;
    });
    return found;
  }

  fly(place) {
    const { x, y, r } = this.hierarchy;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    const around = this.hierarchy.isCluster(place) ? place : this.hierarchy.parents[place];
    const target = d3.zoomIdentity
      .translate(width / 2, height / 2)
      .scale(0.94 / r[around])
      .translate(-width / 2 - x[around] * this.scale, -height / 2 - y[around] * this.scale);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.selection.transition().duration(still ? 0 : 600).call(this.zoom.transform, target);
  }

  magnify(factor) {
    this.zoom.scaleBy(this.selection, factor);
  }

  press(event) {
    const step = 60 / this.transform.k;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.key in moves) this.zoom.translateBy(this.selection, ...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.magnify(1.4);
    else if (event.key === "-") this.magnify(1 / 1.4);
    else if (event.key === "0") this.fly(0);
    else return;
    event.preventDefault();
  }
}
