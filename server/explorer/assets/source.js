// Where the page's data come from: the server, or the file that the page is in.

export const LINKS = 150;
export const ACROSS = 2000;

async function ask(name, parameters = {}) {
  const reply = await fetch(`data/${name}?${new URLSearchParams(parameters)}`);
  const value = await reply.json().catch(() => ({ error: `The server answered ${reply.status}.` }));
  if (!reply.ok) throw new Error(value.error);
  return value;
}

const served = {
  answers: true,
  tree: () => ask("tree"),
  within: (cluster) => ask("links", { cluster, limit: LINKS }),
  across: (layer) => ask("links", { layer, limit: ACROSS }),
  entity: (ref) => ask("entity", { ref }),
  search: (text, limit) => ask("search", { text, limit }),
  around: (citation, neighbours) => ask("passages", { citation, neighbours }),
  document: (document, offset, limit) => ask("passages", { document, offset, limit }),
  documents: () => ask("documents"),
  history: () => ask("history"),
  suggestions: () => ask("suggestions"),
  answer: (question) => ask("answer", { question }),
};

// Each part of the file is parsed when it is first needed; what follows the tree may still be on its way then.
function embedded() {
  const whole = new Promise((resolve) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve);
    else resolve();
  });
  const parsed = {};
  const read = async (name) => {
    if (name !== "tree") await whole;
    return (parsed[name] ??= JSON.parse(document.getElementById(`data-${name}`).textContent));
  };
  const documentOf = (citation) => citation.split(":")[0];
  return {
    answers: false,
    tree: () => read("tree"),
    within: async (cluster) => (await read("within"))[cluster] ?? [],
    across: async (layer) => (await read("across"))[layer] ?? [],
    entity: async (ref) => (await read("entities"))[ref],
    // Without a server names alone are searched.
    search: async () => ({ refs: [], named: [] }),
    around: async (citation, neighbours) => {
      const all = (await read("passages"))[documentOf(citation)];
      const place = all.findIndex((each) => each.citation === citation);
      const first = Math.max(0, place - neighbours);
      return { passages: all.slice(first, place + neighbours + 1), total: all.length };
    },
    document: async (document, offset, limit) => {
      const all = (await read("passages"))[document];
      return { passages: all.slice(offset, offset + limit), total: all.length };
    },
    documents: () => read("documents"),
    history: () => read("history"),
  };
}

export function openSource() {
  return document.getElementById("data-tree") ? embedded() : served;
}
