// Making elements. Text is always set as text, never as markup: names of requests come from users' files.

// `attributes`: `on...` are listeners, false and null are left out. Children are elements or text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Sets text only where it differs: an unchanged live region stays silent, an unchanged layout stays valid.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes `nodes` the children, and touches nothing where they are so already. The keyboard stays where it is, or
// goes to the next element around that takes it.
export function arrange(parent, nodes) {
  const isSame = parent.childNodes.length === nodes.length && nodes.every((node, at) => parent.childNodes[at] === node);
  if (isSame) return;
  const { activeElement: active } = parent.getRootNode();
  const isInside = active !== parent && parent.contains(active);
  if (isInside) active.blur(); // while it still stands somewhere: others hear of it
  parent.replaceChildren(...nodes);
  if (isInside) (parent.contains(active) ? active : parent.closest("[tabindex]")).focus({ preventScroll: true });
}

// A Map that makes what it lacks: elements live on while words change.
export class Store extends Map {
  constructor(build) {
    super();
    this.build = build;
  }

  take(key) {
    if (!this.has(key)) this.set(key, this.build(key));
    return this.get(key);
  }
}

// A button's sign, drawn on a field of 20 by 20: fonts do not agree on arrows.
export function icon(path) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" })) {
    drawing.setAttribute(name, value);
  }
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", path);
  drawing.append(line);
  return drawing;
}

export const ICONS = {
  loop: "M4 5h9V2l5 4.5L13 11V8H6v3H4zM16 15H7v3l-5-4.5L7 9v3h7V9h2z",
  play: "M6 3v14l11-7z",
  pause: "M5 3h4v14H5zM11 3h4v14h-4z",
  back: "M13 4v12l-8-6zM15 4h2v12h-2z",
  on: "M7 4v12l8-6zM3 4h2v12H3z",
  first: "M18 4v12l-7-6zM10 4v12l-7-6zM1 4h2v12H1z",
  last: "M2 4v12l7-6zM10 4v12l7-6zM17 4h2v12h-2z",
  backToEvent: "M12 3v14l-9-7zM16.5 7a3 3 0 1 0 .01 6a3 3 0 1 0-.01-6z",
  onToEvent: "M8 3v14l9-7zM3.5 7a3 3 0 1 0 .01 6a3 3 0 1 0-.01-6z",
};
