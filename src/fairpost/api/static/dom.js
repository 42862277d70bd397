// Creates elements, and updates the page without losing focus, scroll position or input.

const SVG = "http://www.w3.org/2000/svg";

// h("p.quiet", {onclick}, "text", child, [more]): strings become text, never markup. null, undefined and false are omitted.
export function h(what, ...rest) {
  const [name, ...classes] = what.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  const isAttributes = rest[0] !== null && typeof rest[0] === "object" && !(rest[0] instanceof Node) && !Array.isArray(rest[0]);
  if (isAttributes) set(element, rest.shift());
  append(element, rest);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element[name] = value; // set as properties instead of listeners, so that patch() can update them
      (element.handlers ||= new Set()).add(name);
    } else if (name === "class") {
      element.className = [element.className, value].filter(Boolean).join(" ");
    } else if (name === "value" || name === "checked") {
      element[name] = value;
      element.setAttribute(name, value === true ? "" : value);
    } else if (name === "width_percent") {
      element.style.width = `${Math.max(0, Math.min(100, value))}%`; // set by a script, because the page's policy forbids style attributes
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === true) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// A chart drawn by the server. Rejects active content, although charts never contain any.
export function svg(text) {
  const found = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (found.namespaceURI !== SVG || found.querySelector("script, foreignObject, parsererror")) return h("p.quiet", "No chart.");
  return document.importNode(found, true);
}

// Makes `old` match `fresh` with as few changes as possible. Elements with the same `data-key` are treated as the same.
export function patch(old, fresh) {
  const focused = document.activeElement;
  const shown = renewed(old, fresh);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true }); // some browsers lose it when an element moves
  return shown;
}

function renewed(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || key(old) !== key(fresh) || isOwn(old) !== isOwn(fresh)) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return old;
  if (isOwn(old)) {
    old.renew?.(fresh); // this element updates itself
    return old;
  }
  patchAttributes(old, fresh);
  patchChildren(old, fresh);
  return old;
}

const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);
const isOwn = (node) => node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-own");

// State that the user's actions caused: an open section or a busy button.
const isTheirs = ({ nodeName }, name) => (nodeName === "DETAILS" && name === "open") || (nodeName === "BUTTON" && name === "aria-busy");

function patchAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) if (name !== "style" && !fresh.hasAttribute(name) && !isTheirs(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (fresh.style && old.style.width !== fresh.style.width) old.style.width = fresh.style.width;
  for (const name of new Set([...(old.handlers || []), ...(fresh.handlers || [])])) old[name] = fresh[name] || null;
  old.handlers = fresh.handlers;
  if ("checked" in fresh && fresh.hasAttribute("data-bound")) old.checked = fresh.checked;
}

// Nodes that keep their order are not moved. Otherwise, frames would reload and focus would be lost.
function patchChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map(key));
  for (const child of [...old.children]) if (key(child) && !wanted.has(key(child))) child.remove();
  const known = new Map([...old.children].filter(key).map((child) => [key(child), child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = known.get(key(child));
    known.delete(key(child)); // a second node with the same key is treated as a different element
    while (same && place !== same && place && !key(place)) place = removed(place);
    if (same && same !== place) move(same, place);
    const there = same || (place && !key(place) && !key(child) ? place : null);
    if (there) place = renewed(there, child).nextSibling;
    else old.insertBefore(child, place);
  }
  while (place) place = removed(place);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

const move = (node, place) => (node.parentNode.moveBefore || node.parentNode.insertBefore).call(node.parentNode, node, place);
