// The parts of one e-mail: HTML, text, headers, source, attachments and checks.

import { h } from "../dom.js";
import { button, empty, mailFrame, table } from "../parts.js";
import { bytes, counted, number } from "../format.js";
import { findings } from "./findings.js";

const SOURCE_CHARS = 500000;
const LINKS_SHOWN = 500;
const LINK = /(?:https?:\/\/|mailto:)[^\s<>"']+/gi;
const ABOUT = /^(list-|dkim-signature$|authentication-results$|received-spf$|arc-|return-path$|dmarc|domainkey)/i;
const WIDTHS = [["full", "Full width"], ["phone", "Phone"]];

export const mailParts = { html, text, headers, source, files, checks };

export function partsOf({ html: hasHtml, attachments, checks: found }) {
  const bad = found.filter((finding) => finding.level === "bad").length;
  return [
    hasHtml !== null && ["html", "HTML"], ["text", "Text"], ["headers", "Headers"], ["source", "Source"],
    attachments.length > 0 && ["files", `Attachments (${attachments.length})`], ["checks", bad ? `Checks (${counted(bad, "problem")})` : "Checks"],
  ].filter(Boolean);
}

// The frame is rendered once and kept while the page around it changes. Everything around it has a data-key.
function once(key, make) {
  const isThere = document.querySelector(`[data-key="${key}"]`) !== null;
  return h("div", { "data-key": key, "data-own": true }, isThere ? null : make());
}

function html(mail, ctx) {
  const { state } = ctx;
  if (mail.html === null) return empty("This e-mail has no HTML part.");
  const choose = (values) => { Object.assign(state, values); ctx.show(); };
  const isLoaded = state.imagesOf === mail.id;
  return [
    h("div.actions.tools",
      h("div.actions.widths", { role: "group", "aria-label": "Width" }, WIDTHS.map(([width, name]) => h("button", { type: "button", "aria-pressed": String((state.width || "full") === width), onclick: () => choose({ width }) }, name))),
      isLoaded ? h("span.quiet", "Remote images are loaded.") : button("Load remote images", () => choose({ imagesOf: mail.id }))),
    isLoaded ? null : h("p.quiet", "Remote images are blocked because loading them tells the sender that you opened the e-mail."),
    h("div.paper", { "data-key": "paper", class: state.width === "phone" ? "phone" : null }, mailFrame(mail.html, { key: mail.id, images: isLoaded })),
  ];
}

function text(mail) {
  if (mail.text === null) return empty("This e-mail has no text part.");
  return once(`text ${mail.id}`, () => h("pre.whole", { tabindex: 0, "aria-label": "Text" }, linked(mail.text)));
}

// Text with links, but only to web pages and e-mail addresses.
function linked(words) {
  const parts = [];
  let at = 0;
  for (const found of words.matchAll(LINK)) {
    if (parts.length >= 2 * LINKS_SHOWN) break;
    const url = found[0].replace(/[.,;:!?*)\]}]+$/, "");
    parts.push(words.slice(at, found.index), outward(url));
    at = found.index + url.length;
  }
  return [...parts, words.slice(at)];
}

function outward(url) {
  const kind = URL.canParse(url) && new URL(url).protocol;
  return ["http:", "https:", "mailto:"].includes(kind) ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, url) : url;
}

const pairs = (label, all) => table(label, ["Header", "Value"], all.map(({ name, value }, n) => ({ key: `${n}`, cells: [name, h("bdi", value)] })), "None.");

function headers(mail) {
  return once(`headers ${mail.id}`, () => pairs("Headers", mail.headers));
}

function source(mail) {
  const shown = mail.source ?? "";
  return [
    h("p", h("a.button", { href: `/v1/inbox/${mail.id}/source?download=true`, download: `mail-${mail.id}.eml` }, "Download .eml"), " ", h("small", bytes(mail.size))),
    shown.length > SOURCE_CHARS && h("p.notice.wait", `Showing the first ${number(SOURCE_CHARS)} characters. Download the file for the rest.`),
    mail.source === undefined ? h("p.quiet", "Loading …") : once(`source ${mail.id}`, () => h("pre.whole", { tabindex: 0, "aria-label": "Source" }, shown.slice(0, SOURCE_CHARS))),
  ];
}

function files(mail) {
  const row = ({ index, filename, content_type: type, bytes: size, inline_id: inline }) => ({
    key: `${index}`,
    cells: [h("bdi", filename), h("bdi", type, inline && ", inline"), bytes(size), h("a", { href: `/v1/inbox/${mail.id}/attachments/${index}`, download: filename, "aria-label": `Download ${filename}` }, "Download")],
  });
  return table("Attachments", ["Name", "Type", ">Size", ""], mail.attachments.map(row), "No attachments.");
}

function checks(mail) {
  return once(`checks ${mail.id}`, () => [
    findings(mail.checks),
    h("h3", "Links"),
    mail.links.length ? h("p.quiet", counted(mail.links.length, "link")) : null,
    table("Links", ["Text", "URL", "Part"], mail.links.slice(0, LINKS_SHOWN).map(({ url, text: words, part }, n) => ({ key: `${n}`, cells: [h("bdi", words || "–"), outward(url), part] })), "No links."),
    mail.links.length > LINKS_SHOWN && h("p.quiet", `And ${number(mail.links.length - LINKS_SHOWN)} more.`),
    h("h3", "Unsubscribe and authentication"),
    pairs("Unsubscribe and authentication headers", mail.headers.filter(({ name }) => ABOUT.test(name))),
  ]);
}
