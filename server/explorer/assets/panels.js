// What stands beside the drawing: details of an entity, a question, documents, the history of builds.

import { button, count, element } from "./dom.js";
import { MOST } from "./level.js";

export function listEntities(hierarchy, places, pick, selected = -1) {
  return element(
    "ul",
    { class: "rows" },
    ...places.map((place) =>
      element(
        "li",
        {},
        element(
          "button",
          { type: "button", class: "link", onclick: () => pick(place), "aria-current": place === selected && "true" },
          element("span", {}, hierarchy.names[place]),
          element("span", { class: "count" }, hierarchy.describe(place)),
        ),
      ),
    ),
  );
}

// The foremost members, and the others when they are asked for.
export function listMembers(hierarchy, cluster, pick) {
  const members = hierarchy.members[cluster];
  const list = element("div", { id: "members" }, listEntities(hierarchy, members.slice(0, MOST), pick));
  const more = members.length - MOST;
  if (more > 0) {
    const show = button(`and ${more} more`, () => {
      show.replaceWith(listEntities(hierarchy, members.slice(MOST), pick));
    });
    list.append(show);
  }
  return list;
}

function listSentences(sentences, reader) {
  return element(
    "div",
    {},
    ...sentences.map(({ text, places }) => {
      const [best, ...others] = places;
      const open = (place) => () => reader.openPassage(place.citation, place.start, place.end);
      return element(
        "div",
        { class: "sentence" },
        best ? button(text, open(best), { title: "Open its source" }) : text,
        " ",
        element("span", { class: "places" }, ...[best, ...others].filter(Boolean).slice(0, 4).flatMap((place) => [button(place.citation, open(place)), " "]), best?.match === "closest" ? "(closest)" : ""),
      );
    }),
  );
}

export function showDetails(hierarchy, place, details, { pick, reader }) {
  const { names, members } = hierarchy;
  const parts = [element("h2", {}, names[place])];
  const facts = [hierarchy.describe(place)];
  if (hierarchy.isCluster(place)) facts.push(count(members[place].length, "member"));
  parts.push(element("p", { class: "faint" }, facts.join(" · ")));
  if (details.aliases.length) parts.push(element("p", {}, `Also called ${details.aliases.join(", ")}.`));
  for (const each of details.attributes) parts.push(element("p", {}, each));
  if (details.stale) parts.push(element("p", { class: "error" }, "Something beneath has changed since this text was written."));
  const described = details.sentences.filter((each) => !each.finding);
  const found = details.sentences.filter((each) => each.finding);
  if (described.length) parts.push(element("h3", {}, `Description (${details.method}): each sentence opens its source`), listSentences(described, reader));
  else if (details.description) parts.push(element("h3", {}, `Description (${details.method})`), element("p", {}, details.description));
  if (hierarchy.isCluster(place)) parts.push(element("h3", {}, "Members"), listMembers(hierarchy, place, pick));
  if (found.length) parts.push(element("h3", {}, "Findings"), listSentences(found, reader));
  if (details.relations.length) {
    parts.push(element("h3", {}, "Strongest relations"), listRelations(hierarchy, details.relations, pick));
  }
  if (details.passages.length) {
    const links = details.passages.flatMap((citation) => [button(citation, () => reader.openPassage(citation)), " "]);
    parts.push(element("h3", {}, "Passages"), element("p", {}, ...links));
  }
  return parts;
}

function listRelations(hierarchy, relations, pick) {
  return element(
    "ul",
    { class: "rows" },
    ...relations.map(({ ref, strength, description }) =>
      element(
        "li",
        {},
        element("button", { type: "button", class: "link", onclick: () => pick(hierarchy.places.get(ref)) }, element("span", {}, hierarchy.names[hierarchy.places.get(ref)]), element("span", { class: "count" }, `λ ${strength}`)),
        description ? element("p", { class: "faint" }, description) : "",
      ),
    ),
  );
}

export function showDocuments(documents, reader) {
  const list = element("ul", { class: "rows" });
  const fill = (wanted) => {
    const kept = documents.filter((each) => `${each.title} ${each.path}`.toLocaleLowerCase().includes(wanted.toLocaleLowerCase()));
    list.replaceChildren(
      ...kept.slice(0, 300).map((each) =>
        element(
          "li",
          {},
          element("button", { type: "button", class: "link", onclick: () => reader.openDocument(each.number) }, element("span", {}, each.title || each.path), element("span", { class: "count" }, each.date || count(each.passages, "passage"))),
          each.path && each.title ? element("div", { class: "path" }, each.path) : "",
        ),
      ),
      ...(kept.length > 300 ? [element("li", {}, `and ${kept.length - 300} more: filter to see them`)] : []),
    );
  };
  fill("");
  const filter = element("input", { type: "search", placeholder: "Filter by title or path", "aria-label": "Filter documents" });
  filter.addEventListener("input", () => fill(filter.value));
  return [element("h2", {}, count(documents.length, "document")), filter, list];
}

export function showHistory(entries) {
  const words = (figures) => Object.entries(figures).filter(([, figure]) => figure).map(([what, figure]) => `${what}: ${figure.toLocaleString("en")}`);
  const rows = entries.map((each) =>
    element(
      "tr",
      {},
      element("td", {}, String(each.generation), element("div", { class: "faint" }, new Date(each.published_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }))),
      element("td", {}, each.reason, element("div", { class: "faint" }, `entities by layer, lowest first: ${each.layers.join(", ")}`)),
      element("td", { class: "faint" }, ...[...words(each.changed), ...words(each.cost)].map((line) => element("div", {}, line))),
    ),
  );
  const heads = ["Build", "Why", "What changed and what it cost"].map((text) => element("th", { scope: "col" }, text));
  return [element("h2", {}, "Builds, newest first"), element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows))];
}

export function showQuestion(source, asked, ask) {
  if (!source.answers) return [element("h2", {}, "Ask a question"), element("p", {}, "This file holds no index to search. Run `leanrag explore` to ask questions.")];
  const box = element("textarea", { rows: 2, id: "question", "aria-label": "Question", placeholder: "What would you like to know?" }, asked);
  const form = element("form", {}, element("h2", {}, "Ask a question"), element("p", {}, box), element("button", { class: "plain" }, "Ask"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (box.value.trim()) ask(box.value.trim());
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  });
  return [form];
}

export function showWork(text) {
  return element("p", { role: "status", class: "work" }, element("progress", { "aria-hidden": "true" }), " ", text);
}

// An element that says that the embedder is being loaded, and then holds questions to ask.
export function suggest(source, ask, report) {
  const place = element("div", {}, showWork("Loading the embedder and trying a few questions …"));
  const fill = (questions) => place.replaceChildren(...(questions.length ? [element("h3", {}, "For example")] : []), ...questions.map((text) => element("p", {}, button(text, () => ask(text)))));
  const fail = (problem) => {
    place.replaceChildren();
    throw problem;
  };
  report(source.suggestions().then(fill, fail));
  return place;
}

export function showAnswer(hierarchy, answer, { pick, reader }) {
  const known = (refs) => refs.map((ref) => hierarchy.places.get(ref)).filter((place) => place !== undefined);
  const parts = answer.warnings.map((warning) => element("p", { class: "error" }, warning));
  const left = answer.truncated ? "; more was left out for lack of room" : "";
  parts.push(element("h3", {}, `${count(answer.lines.length, "passage")}, the best first: ${count(answer.tokens, "token")}${left}`));
  parts.push(element("ol", {}, ...answer.lines.map((line) => showEvidence(line, reader))));
  parts.push(element("h3", {}, "What it is about ◆"), listEntities(hierarchy, known(answer.seeds.map((each) => each.ref)), pick));
  parts.push(element("h3", {}, "Where these meet ◎"));
  for (const group of answer.groups) {
    const places = known([group.lca]);
    const place = places.length ? button(hierarchy.names[places[0]], () => pick(places[0])) : group.lca;
    parts.push(element("p", {}, place, element("div", { class: "faint" }, group.seeds.join(", "))));
  }
  // As an image the picture runs nothing and can load nothing.
  const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(answer.picture)}`;
  parts.push(fold("The answer drawn", element("img", { class: "picture", src: address, alt: "The paths from the seeds to where they meet, listed above" })));
  parts.push(fold("Its tokens by part", showTokens(answer)));
  const meanings = Object.entries(answer.meanings).flatMap(([name, meaning]) => [element("dt", {}, name), element("dd", {}, meaning)]);
  parts.push(fold("What the parts of a value mean", element("dl", {}, ...meanings)));
  return parts;
}

// A line of the context: its citation opens the document there, its link the file where a browser may.
function showEvidence({ kind, citations, subject, place, date, link, text, tokens, why }, reader) {
  const cited = citations.split(" ").flatMap((citation) => [button(citation, () => reader.openPassage(citation, -1, -1, text), { title: "Open the document here" }), " "]);
  const web = /^https?:/.test(link) && element("a", { href: link, target: "_blank", rel: "noreferrer" }, place);
  return element(
    "li",
    { class: "evidence" },
    element("div", {}, ...cited, element("strong", {}, subject), element("span", { class: "faint" }, ` ${[kind === "excerpt" ? "" : kind, date].filter(Boolean).join(" · ")}`)),
    place ? element("div", { class: "path" }, web || place) : "",
    element("blockquote", {}, text),
    fold("why it is here", element("span", { class: "faint" }, `${count(tokens, "token")} · value ${why}`)),
  );
}

function fold(summary, ...content) {
  return element("details", {}, element("summary", {}, summary), ...content);
}

// Tokens by part, each as a bar with its number.
function showTokens({ parts, tokens }) {
  const rows = parts.map(([kind, number]) =>
    element("tr", {}, element("th", { scope: "row" }, kind), element("td", {}, element("meter", { min: 0, max: tokens, value: number, "aria-hidden": "true" })), element("td", {}, String(number))),
  );
  return element("table", { class: "tokens" }, element("tbody", {}, ...rows));
}
