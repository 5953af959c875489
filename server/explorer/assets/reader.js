// A document in a dialog, around a passage, with the sentence marked that was asked for.

import { button, byId, element } from "./dom.js";

const PAGE = 20;

export class Reader {
  constructor(source) {
    this.source = source;
    this.dialog = byId("reader");
    byId("reader-close").addEventListener("click", () => this.dialog.close());
  }

  // Open the document at a passage; start and end are characters of the document, quoted is what an answer shows of it.
  async openPassage(citation, start = -1, end = -1, quoted = "") {
    const { passages } = await this.source.around(citation, 2);
    const place = start < 0 && findQuoted(passages.find((each) => each.citation === citation), quoted);
    this.fill(passages, citation, ...(place || [start, end]));
    const whole = button("Show the whole document", () => this.openDocument(citation.split(":")[0]));
    byId("text").append(whole);
  }

  async openDocument(number, offset = 0) {
    const { passages, total } = await this.source.document(number, offset, PAGE);
    this.fill(passages, "", -1, -1);
    const turn = (at, text) => at >= 0 && at < total && button(text, () => this.openDocument(number, at));
    const pages = [turn(offset - PAGE, "Previous passages"), " ", turn(offset + PAGE, "Next passages")];
    byId("text").append(element("p", {}, ...pages.filter(Boolean)));
  }

  fill(passages, wanted, start, end) {
    const chosen = passages.find((each) => each.citation === wanted) ?? passages[0];
    byId("reader-title").textContent = chosen.title;
    const place = [chosen.page && `page ${chosen.page}`, chosen.line && `line ${chosen.line}`, chosen.heading, chosen.path];
    byId("reader-place").textContent = place.filter(Boolean).join(" · ");
    let shown = -1; // the end of what stands there already: passages overlap
    const parts = passages.map((passage) => {
      const first = Math.max(passage.start, shown);
      shown = Math.max(shown, passage.start + passage.text.length);
      return element(
        "section",
        { "aria-label": passage.citation },
        element("div", { class: "citation" }, passage.citation),
        element("p", { class: "passage" }, ...markText(passage, first, start, end)),
      );
    });
    byId("text").replaceChildren(...parts);
    if (!this.dialog.open) this.dialog.showModal();
    const marked = byId("text").querySelector("mark") ?? byId("text").querySelector(`section[aria-label="${CSS.escape(wanted)}"]`);
    if (marked) marked.scrollIntoView({ block: "center" });
    else byId("text").scrollTop = 0;
  }
}

// The text of a passage from the character first of the document on, with a mark around those from start to end.
function markText(passage, first, start, end) {
  const cut = (from, to) => passage.text.slice(Math.max(0, from - passage.start), Math.max(0, to - passage.start));
  const last = passage.start + passage.text.length;
  const from = Math.max(first, start);
  const to = Math.min(last, end);
  if (start < 0 || from >= to) return [cut(first, last)];
  return [cut(first, from), element("mark", {}, cut(from, to)), cut(to, last)];
}

// From where to where in the document a passage holds what is quoted of it, whatever the white space and what is left out; null if it does not.
function findQuoted(passage, quoted) {
  let first = -1;
  let last = 0;
  for (const piece of passage ? quoted.split("…") : []) {
    const words = piece.split(/\s+/).filter((word) => /\p{L}|\p{N}/u.test(word)).slice(0, 400);
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("[^\\p{L}\\p{N}]+");
    const found = words.length ? new RegExp(pattern, "u").exec(passage.text.slice(last)) : null;
    if (!found) continue;
    if (first < 0) first = last + found.index;
    last += found.index + found[0].length;
  }
  return first < 0 ? null : [passage.start + first, passage.start + last];
}
