// Shows one e-mail, which the surrounding page sends. There are three safeguards, each sufficient on its own: parsed scripts never run; active content is removed
// here; and this page's policy allows no script except this one.
"use strict";

const GONE = new Set([
  "animate", "animateMotion", "animateTransform", "applet", "base", "embed", "fencedframe", "frame", "frameset", "iframe", "link", "meta", "noscript", "object", "portal",
  "script", "set", "template",
]);
const UNKEPT = new Set(["action", "formaction", "is", "nonce", "ping", "popover", "referrerpolicy", "srcdoc", "target"]);
const LEADS = /^\s*(https?:\/\/|mailto:|tel:|#)/i;
const root = document.documentElement;

// Form fields and named elements can shadow properties of the form and the document, so read properties through the prototype.
const asked = (kind, name) => { const { get } = Object.getOwnPropertyDescriptor(kind.prototype, name); return (element) => get.call(element); };
const nameOf = asked(Element, "localName");
const attributesOf = asked(Element, "attributes");

function elementsOf(mail) {
  const walker = document.createTreeWalker(mail, NodeFilter.SHOW_ELEMENT);
  const all = [];
  while (walker.nextNode()) all.push(walker.currentNode);
  return all;
}

function clean(element) {
  const name = nameOf(element);
  if (GONE.has(name)) return Element.prototype.remove.call(element);
  const isLink = name === "a" || name === "area";
  for (const attribute of [...attributesOf(element)]) {
    const { localName, value } = attribute;
    if (localName.startsWith("on") || UNKEPT.has(localName) || (isLink && localName === "href" && !LEADS.test(value))) Element.prototype.removeAttributeNode.call(element, attribute);
    else if (isLink && localName === "href" && !value.trim().startsWith("#")) element.setAttribute("target", "_blank");
  }
  if (isLink) element.setAttribute("rel", "noopener noreferrer");
}

function show(html) {
  const all = elementsOf(new DOMParser().parseFromString(html, "text/html"));
  const [head, body] = ["head", "body"].map((name) => all.find((each) => nameOf(each) === name));
  all.forEach(clean);
  for (const { name, value } of all[0].attributes) root.setAttribute(name, value);
  if (!root.style.fontFamily) root.style.fontFamily = "sans-serif"; // the default of most mail programs
  document.head.append(...head.childNodes);
  if (body) document.body.replaceWith(document.adoptNode(body));
}

// Tells the page the height of the content, which may be less than the frame's height.
function tell() {
  const bar = innerHeight - root.clientHeight; // the horizontal scroll bar
  parent.postMessage({ height: bar + (root.scrollHeight > root.clientHeight ? root.scrollHeight : Math.min(root.offsetHeight, root.clientHeight)) }, "*");
}

addEventListener("message", function hear(event) {
  if (event.source !== parent || typeof event.data?.html !== "string") return;
  removeEventListener("message", hear);
  show(event.data.html);
  new ResizeObserver(tell).observe(root);
  addEventListener("load", tell, true); // images
  tell();
});
document.currentScript.remove(); // the styles of an e-mail could make hidden elements visible
parent.postMessage("ready", "*");
