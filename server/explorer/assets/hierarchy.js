// The hierarchy with a place for each entity: a circle within that of its cluster, the same at every visit.

import { count } from "./dom.js";

export class Hierarchy {
  constructor(tree) {
    Object.assign(this, tree);
    this.size = tree.refs.length;
    this.places = new Map(tree.refs.map((ref, place) => [ref, place]));
    this.members = Array.from(tree.refs, () => []);
    tree.parents.forEach((parent, place) => {
      if (parent >= 0) this.members[parent].push(place);
    });
    this.top = tree.layers[0];
    this.beneath = new Int32Array(this.size);
    for (let place = this.size - 1; place >= 0; place--) {
      if (this.layers[place] === 0) this.beneath[place] = 1;
      if (tree.parents[place] >= 0) this.beneath[tree.parents[place]] += this.beneath[place];
    }
    this.pack();
  }

  // Pack the circles: x, y and r for each entity, the root at the origin with radius 1.
  pack() {
    const root = d3.hierarchy(0, (place) => this.members[place]);
    const radius = ({ data }) => Math.sqrt(1 + Math.log2(this.mentions[data]));
    // In proportion to the members, which are larger in each layer.
    const gap = ({ children }) => (0.2 * children.reduce((sum, child) => sum + child.r, 0)) / children.length;
    d3.pack().radius(radius).padding(gap)(root);
    this.x = new Float64Array(this.size);
    this.y = new Float64Array(this.size);
    this.r = new Float64Array(this.size);
    root.each((node) => {
      this.x[node.data] = (node.x - root.x) / root.r;
      this.y[node.data] = (node.y - root.y) / root.r;
      this.r[node.data] = node.r / root.r;
    });
  }

  isCluster(place) {
    return this.layers[place] > 0;
  }

  // Those that are called so, then those whose name begins with the text, then those whose name contains it.
  find(text) {
    const wanted = text.toLocaleLowerCase();
    const found = [[], [], []];
    this.names.forEach((each, place) => {
      const name = each.toLocaleLowerCase();
      if (name.includes(wanted)) found[name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2].push(place);
    });
    return found.flat();
  }

  // From the root to the entity.
  trail(place) {
    const trail = [];
    for (let at = place; at >= 0; at = this.parents[at]) trail.unshift(at);
    return trail;
  }

  // What its circle's size says, in words.
  amount(place) {
    return this.isCluster(place) ? count(this.beneath[place], "entity", "entities") : count(this.mentions[place], "mention");
  }

  describe(place) {
    const type = this.types[this.kinds[place]];
    if (!this.isCluster(place)) return `${type}, ${this.amount(place)}`;
    return `layer ${this.layers[place]}, ${this.amount(place)}`;
  }
}
