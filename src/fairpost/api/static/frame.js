// Shows one e-mail that the page around sends in. What a parser made never runs: scripts are dead, handlers are forbidden by the policy.
"use strict";

const tell = () => parent.postMessage({ height: document.documentElement.scrollHeight }, "*");

addEventListener("message", (event) => {
  if (event.source !== parent || typeof event.data !== "string") return;
  const mail = new DOMParser().parseFromString(event.data, "text/html");
  for (const each of mail.querySelectorAll("script, base, meta, object, embed, iframe, frame, link")) each.remove();
  for (const each of mail.querySelectorAll("a[href], area[href]")) {
    each.setAttribute("target", "_blank");
    each.setAttribute("rel", "noopener noreferrer");
  }
  document.head.append(...mail.head.childNodes);
  document.body.replaceWith(document.adoptNode(mail.body));
  new ResizeObserver(tell).observe(document.documentElement);
  for (const image of document.images) image.addEventListener("load", tell);
  tell();
});
parent.postMessage("ready", "*");
