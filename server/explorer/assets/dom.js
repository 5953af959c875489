// Elements are made from text and properties, never from HTML: documents may hold any.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((each) => each !== undefined && each !== null));
  return made;
}

export function button(text, act, properties = {}) {
  return element("button", { type: "button", class: "link", onclick: act, ...properties }, text);
}

export function byId(id) {
  return document.getElementById(id);
}

// 1 entity, 2 entities; plural is only given where it is not singular + s.
export function count(number, singular, plural = `${singular}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}
