// The page: opens on the root, a click descends, the trail climbs; the address keeps the place.

import { button, byId, count, element } from "./dom.js";
import { drawMark, readColors } from "./drawing.js";
import { Hierarchy } from "./hierarchy.js";
import { LevelView } from "./level.js";
import { MapView } from "./map.js";
import { listEntities, showAnswer, showDetails, showDocuments, showHistory, showQuestion, showWork, suggest } from "./panels.js";
import { Reader } from "./reader.js";
import { openSource } from "./source.js";

const FOUND = 20;

class Page {
  constructor(source, tree) {
    this.source = source;
    this.hierarchy = new Hierarchy(tree);
    this.reader = new Reader(source);
    this.tab = "details";
    this.question = "";
    this.cluster = 0;
    this.selected = 0;
    this.links = new Map();
    const pick = (place) => this.go(place);
    this.tools = { pick, reader: this.reader };
    this.level = new LevelView(byId("level").querySelector("canvas"), this.hierarchy, { pick });
    this.map = new MapView(byId("map").querySelector("canvas"), this.hierarchy, { pick, need: (place) => this.addLinks(place) });
    byId("collection").textContent = tree.collection;
    document.title = `${tree.collection} · LeanRAG explorer`;
    this.listen();
  }

  listen() {
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (event) => this.press(event));
    for (const tab of document.querySelectorAll('[role="tab"]')) {
      tab.addEventListener("click", () => this.openTab(tab.id.replace("tab-", "")));
      tab.addEventListener("keydown", (event) => this.moveTab(event));
    }
    for (const chosen of document.querySelectorAll("#switch button")) chosen.addEventListener("click", () => this.switchView(chosen.dataset.view));
    for (const tool of document.querySelectorAll("[data-zoom]")) {
      tool.addEventListener("click", () => {
        if (tool.dataset.zoom === "all") this.map.fly(0);
        else this.map.magnify(tool.dataset.zoom === "in" ? 1.6 : 1 / 1.6);
      });
    }
    let typed = null;
    byId("search").addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => this.report(this.search()), 200);
    });
    byId("searching").addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(typed);
      this.report(this.search().then(() => byId("found").querySelector(".named button")?.click()));
    });
    const close = ({ target, relatedTarget }) => {
      if (!byId("searching").contains(relatedTarget ?? target)) byId("found").replaceChildren();
    };
    byId("searching").addEventListener("focusout", (event) => event.relatedTarget && close(event));
    addEventListener("pointerdown", close);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      readColors();
      this.paint();
    });
  }

  // Show what the address names: the answer to a question, the open cluster, or an entity within its cluster.
  follow(tab = "details") {
    const named = decodeURIComponent(location.hash.slice(1));
    if (named.startsWith("?q=") && this.source.answers) {
      this.report(this.openAnswer(named.slice(3)));
      return;
    }
    const place = this.hierarchy.places.get(named) ?? 0;
    this.selected = place;
    this.cluster = this.hierarchy.isCluster(place) ? place : this.hierarchy.parents[place];
    this.tab = tab;
    this.report(this.showPlace());
  }

  go(place) {
    this.visit(place ? encodeURIComponent(this.hierarchy.refs[place]) : "");
  }

  ask(question) {
    this.answer = null;
    this.visit(`?q=${encodeURIComponent(question)}`);
  }

  visit(address) {
    byId("found").replaceChildren();
    if (location.hash.slice(1) === address) this.follow();
    else location.hash = address;
  }

  async showPlace() {
    this.level.selected = this.map.selected = this.selected;
    this.showCluster(this.cluster);
    this.showTrail(this.selected);
    this.markTabs();
    await Promise.all([this.addLinks(this.cluster), this.fillPanel()]);
  }

  showCluster(cluster) {
    const { hierarchy } = this;
    this.cluster = cluster;
    this.level.show(cluster, this.links.get(cluster) ?? []);
    this.map.schedule();
    this.map.fly(cluster);
    const shown = Math.min(30, hierarchy.members[cluster].length);
    const more = hierarchy.members[cluster].length - shown;
    byId("level-title").textContent = `${hierarchy.names[cluster]}: ${count(shown, "member")}${more ? ` and ${more} more` : ""}`;
  }

  showTrail(place) {
    const steps = this.hierarchy.trail(place);
    const items = steps.map((place, number) => {
      const last = number === steps.length - 1;
      return element("li", {}, button(this.hierarchy.names[place], () => this.go(place), { "aria-current": last && "page" }));
    });
    byId("trail").replaceChildren(element("ol", {}, ...items));
  }

  // Load the relations among the members of a cluster, once.
  async addLinks(cluster) {
    if (!this.links.has(cluster)) {
      this.links.set(cluster, []);
      const found = await this.source.within(this.hierarchy.refs[cluster]);
      this.links.set(cluster, this.toPlaces(found));
      this.map.within.set(cluster, this.links.get(cluster));
    }
    if (cluster === this.cluster) this.level.show(cluster, this.links.get(cluster));
    this.map.schedule();
  }

  async addLayers() {
    for (let layer = this.hierarchy.top - 1; layer >= 1; layer--) {
      this.map.across[layer] = this.toPlaces(await this.source.across(layer));
      this.map.schedule();
    }
  }

  toPlaces(links) {
    const { places } = this.hierarchy;
    return links.map(([from, to, strength]) => [places.get(from), places.get(to), strength]);
  }

  async fillPanel() {
    const { tab, selected, source, tools, hierarchy } = this;
    let parts = [];
    if (tab === "details") parts = showDetails(hierarchy, selected, await source.entity(hierarchy.refs[selected]), tools);
    else if (tab === "documents") parts = showDocuments(await source.documents(), this.reader);
    else if (tab === "history") parts = showHistory(await source.history());
    else {
      parts = showQuestion(source, this.question, (question) => this.ask(question));
      if (this.answer) parts.push(...showAnswer(hierarchy, this.answer, tools));
      else if (source.answers) parts.push(this.suggestions);
    }
    // A reply that was overtaken by a later click is dropped.
    if (tab === this.tab && selected === this.selected) {
      byId("panel").replaceChildren(...parts);
      byId("panel").scrollTop = 0;
    }
  }

  // Show the answer to a question, and ask for it unless it is the last one.
  async openAnswer(question) {
    this.tab = "question";
    this.markTabs();
    if (question !== this.question || !this.answer) {
      this.question = question;
      this.answer = null;
      this.showCluster(this.cluster);
      this.showTrail(this.cluster);
      byId("panel").replaceChildren(...showQuestion(this.source, question, (each) => this.ask(each)), showWork("Searching …"));
      const answer = await this.source.answer(question);
      if (question !== this.question) return; // another one was asked meanwhile
      this.answer = answer;
    }
    const { places } = this.hierarchy;
    const marks = new Map();
    const mark = (refs, kind) => refs.filter((ref) => places.has(ref)).forEach((ref) => marks.set(places.get(ref), kind));
    mark(this.answer.path, "path");
    mark(this.answer.groups.map((each) => each.lca), "lca");
    mark(this.answer.seeds.map((each) => each.ref), "seed");
    const steps = [...marks.keys()].map((place) => [place, this.hierarchy.parents[place]]);
    this.level.marks = this.map.marks = marks;
    this.map.steps = steps.filter(([, parent]) => marks.has(parent));
    paintLegend(true);
    const lca = places.get(this.answer.lca) ?? 0;
    this.showCluster(this.hierarchy.isCluster(lca) ? lca : this.hierarchy.parents[lca]);
    this.showTrail(this.cluster);
    await Promise.all([this.addLinks(this.cluster), this.fillPanel()]);
    if (document.activeElement === document.body) byId("question")?.focus({ preventScroll: true });
  }

  async search() {
    const text = byId("search").value.trim();
    if (!text) return byId("found").replaceChildren();
    byId("found").replaceChildren(showWork("Searching …"));
    const { refs, named } = await this.source.search(text, FOUND);
    if (text !== byId("search").value.trim()) return undefined;
    const toPlaces = (refs) => refs.map((ref) => this.hierarchy.places.get(ref)).filter((place) => place !== undefined);
    const list = (places) => listEntities(this.hierarchy, places, this.tools.pick);
    const faint = (said) => element("p", { class: "faint" }, said);
    const called = [...new Set([...this.hierarchy.find(text), ...toPlaces(named)])];
    const similar = toPlaces(refs).filter((place) => !called.includes(place)).slice(0, 5);
    return byId("found").replaceChildren(
      called.length ? element("div", { class: "named" }, list(called.slice(0, FOUND))) : "No entity is called so.",
      ...(called.length > FOUND ? [faint(`and ${called.length - FOUND} more: type more of the name`)] : []),
      ...(similar.length ? [faint("Similar:"), list(similar)] : []),
    );
  }

  openTab(tab) {
    this.tab = tab;
    this.markTabs();
    this.report(this.fillPanel());
  }

  markTabs() {
    for (const tab of document.querySelectorAll('[role="tab"]')) {
      const chosen = tab.id === `tab-${this.tab}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    byId("panel").setAttribute("aria-labelledby", `tab-${this.tab}`);
  }

  moveTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...document.querySelectorAll('[role="tab"]')];
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }

  switchView(view) {
    document.body.dataset.view = view;
    for (const each of document.querySelectorAll("#switch button")) each.setAttribute("aria-pressed", String(each.dataset.view === view));
    this.paint();
    if (view === "map") this.map.fly(this.cluster);
  }

  press(event) {
    const writing = event.target.matches("input, textarea");
    if (event.key === "/" && !writing) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && byId("found").childElementCount) byId("found").replaceChildren();
    else if (event.key === "Backspace" && !writing && !byId("reader").open && this.selected > 0) this.go(this.hierarchy.parents[this.selected]);
  }

  paint() {
    this.level.paint();
    this.map.schedule();
    paintLegend(this.level.marks.size > 0);
  }

  // Show a failure where the reader looks; what stands there stays.
  report(work) {
    work.catch((problem) => {
      byId("panel").querySelector('[role="status"]')?.remove();
      byId("panel").prepend(element("p", { class: "error", role: "alert" }, problem.message));
    });
  }
}

// What the drawings mean, in words: with a question, what its marks are.
function paintLegend(asked) {
  const kinds = [
    ["seed", "seed: the question is about it"],
    ["path", "path to the LCA"],
    ["lca", "LCA: where seeds meet"],
  ];
  const rows = (asked ? kinds : []).map(([kind, text]) => {
    const sign = element("canvas", { width: 36, height: 36, "aria-hidden": "true" });
    const context = sign.getContext("2d");
    context.scale(2, 2);
    drawMark(context, kind, 9, 9, kind === "lca" ? 3 : 6);
    return element("li", {}, sign, text);
  });
  const words = ["Circle: a cluster or an entity, larger the more it holds or is mentioned; bluer: a higher layer.", "Line: a relation, wider the more relations beneath (λ)."];
  byId("legend").replaceChildren(...rows, ...words.map((text) => element("li", {}, text)));
}

async function start() {
  readColors();
  const source = openSource();
  const page = new Page(source, await source.tree());
  paintLegend(false);
  // Questions are tried before they are suggested, which loads the embedder while the reader looks around.
  if (source.answers) page.suggestions = suggest(source, (question) => page.ask(question), (work) => page.report(work));
  page.follow(source.answers && !location.hash ? "question" : "details");
  performance.mark("drawn");
  document.body.dataset.ready = "yes";
  await page.addLayers();
}

start().catch((problem) => byId("panel").replaceChildren(element("p", { class: "error", role: "alert" }, problem.message)));
