// Building blocks of pages.

import { h, svg } from "./dom.js";
import { chosen, query } from "./ask.js";
import { guarded, isChanged } from "./unsaved.js";
import { ago, at, duration, number, percent, whole, words } from "./format.js";
import { UNFINISHED } from "./model.js";

// ── links and headings ──────────────────────────────────────────────────────────────────────────────────

// The URL of a page in the current workspace. The path may have its own query: "/emails?state=failed".
export function to(path, values = {}) {
  const [place, own] = path.split("?");
  return place + query({ ...Object.fromEntries(new URLSearchParams(own)), workspace: chosen(), ...values });
}
export const link = (path, ...children) => h("a", { href: to(path) }, children);

export const heading = (title, ...beside) => h("div.heading", h("h1", title), h("div.beside", beside));
export const panel = (title, ...children) => h("section.panel", { "data-key": `panel ${title}`, "aria-label": title }, h("h2", title), children);
// The colour of a condition, by severity.
export const LOOKS = { fault: "bad", stopped: "bad", waiting: "wait", working: "good", idle: "quiet" };

// A condition as a sentence, with the time when it ends: { text, tone, until }.
export const headline = ({ text, tone, until: then }) => h(`div.headline.${LOOKS[tone]}`, { role: "status" }, h("p", text), then && h("p.next", "Continues ", countdown(then), "."));
export const columns = (...children) => h("div.columns", children);

// Links to the parts of a page; `here` is the current path.
export function tabs(label, entries, here) {
  const one = ([path, name]) => h("a", { href: to(path), "aria-current": path === here ? "page" : null }, name);
  return h("nav.tabs", { "aria-label": label }, entries.map(one));
}

// ── figures ─────────────────────────────────────────────────────────────────────────────────────────────

// tone: good, bad, wait, quiet
export const badge = (text, tone = "quiet") => h(`span.badge.${tone}`, words(text));

const TONES = {
  active: "good", sent: "good", completed: "good", running: "good", live: "good",
  failed: "bad", bounced: "bad", in_doubt: "bad", suspended: "bad", auth_failed: "bad", disabled: "bad", revoked: "bad",
  paused: "wait", cooling: "wait", throttled: "wait", held: "wait", retry: "wait", cut: "wait",
};
export const toneOf = (name) => TONES[name] ?? (UNFINISHED.includes(name) ? "wait" : null);
export const state = (name) => badge(name, toneOf(name) ?? "quiet");

export const figure = (name, value, note, tone = null) => h("div.figure", { class: tone, "data-key": `figure ${name}` }, h("dt", name), h("dd", value, note && h("small", note)));
export const figures = (...all) => h("dl.figures", all);
// Smaller figures, shown below the main ones.
export const minorFigures = (...all) => h("dl.figures.minor", all);
export const facts = (entries) => h("dl.facts", entries.filter(Boolean).map(([name, value]) => [h("dt", name), h("dd", value ?? "–")]));

// A time, with the full date as its tooltip.
export const moment = (value, shown = at) => (value ? h("time", { datetime: value, title: whole(value) }, shown(value)) : h("span.quiet", "–"));
export const since = (value) => moment(value, ago);
export const countdown = (value) => h("time.countdown", { datetime: value, title: whole(value), "data-until": value }, until(value));
const until = (value) => (new Date(value) <= Date.now() ? "now" : `in ${duration((new Date(value) - Date.now()) / 1000)}`);
setInterval(() => {
  for (const each of document.querySelectorAll("[data-until]")) {
    const text = until(each.dataset.until);
    if (each.textContent !== text) each.textContent = text;
  }
}, 1000);

// Usage of a limit. If `most` is null, there is no limit. `text` replaces the label.
export function meter(name, used, most, text = null) {
  const part = most ? used / most : 0;
  const tone = part >= 1 ? "bad" : part >= 0.8 ? "wait" : "good";
  return h("div.meter", { "data-key": `meter ${name}` },
    h("span.meter-words", text || [`${name}: ${number(used)}`, most ? ` of ${number(most)}` : ", no limit"]),
    most ? h(`div.bar.${tone}`, { role: "meter", "aria-label": name, "aria-valuetext": text, "aria-valuenow": used, "aria-valuemin": 0, "aria-valuemax": most }, h("div", { width_percent: 100 * part })) : null);
}

// A named share of a total.
export const share = (name, part, value) => h("div.share", { "data-key": `share ${name}` },
  h("span.share-name", name), h("div.bar.plain", h("div", { width_percent: 100 * part })), h("span.share-value", `${value} · ${percent(part)}`));

// Progress: sent, failed and remaining.
export function progress(name, { emails: all, sent, missed, left }) {
  const words_ = `${number(sent)} of ${number(all)} sent${missed ? `, ${number(missed)} failed` : ""}, ${number(left)} remaining`;
  return h("div.progress", { "data-key": `progress ${name}` },
    h("div.bar.parts", { role: "img", "aria-label": words_ }, h("div", { width_percent: 100 * sent / all }), h("div.missed", { width_percent: 100 * missed / all })),
    h("small", { "aria-hidden": "true" }, words_));
}

export const chart = (text, words_) => (text ? h("figure.chart", { "data-key": `chart ${words_ || ""}` }, svg(text), words_ ? h("figcaption", words_) : null) : null);

// ── lists ───────────────────────────────────────────────────────────────────────────────────────────────

// heads: ["Name", ">Sent"], where > marks numbers. rows: {key, cells, href?}. On a phone, each row is a card with the heads as labels.
export function table(label, heads, rows, none = "Nothing to show.") {
  if (!rows.length) return empty(none);
  const names = heads.map((head) => head.replace(/^>/, ""));
  const cell = (value, n) => {
    const made = h("td", { class: heads[n].startsWith(">") ? "number" : null, "data-label": names[n] }, value ?? "–");
    if (made.textContent === "–") made.classList.add("nothing");
    return made;
  };
  return h("div.table", { tabindex: 0, role: "region", "aria-label": label }, h("table",
    h("thead", h("tr", heads.map((head, n) => h("th", { scope: "col", class: head.startsWith(">") ? "number" : null }, names[n])))),
    h("tbody", rows.map((row) => h("tr", { "data-key": row.key }, row.cells.map(cell))))));
}

export const empty = (text, ...more) => h("div.empty", h("p", text), more);

// An error from the API.
export const trouble = (error, again) => h("div.notice.bad", { role: "alert", "data-code": error.code }, h("p", error.message), again && button("Try again", again));

// A button for the next page of a list, if there is one.
export const pager = (next, more) => (next ? h("p.pager", button("Show more", () => more(next))) : null);

// ── buttons and dialogs ─────────────────────────────────────────────────────────────────────────────────

// A button that ignores clicks while its action runs, and shows errors.
export function button(name, act, { tone = "", label = null, disabled = false } = {}) {
  const press = async (event) => {
    const pressed = event.currentTarget;
    if (pressed.getAttribute("aria-busy") === "true") return;
    pressed.setAttribute("aria-busy", "true");
    try {
      await act(event);
    } catch (error) {
      tell(error.message, "bad");
    } finally {
      pressed.removeAttribute("aria-busy");
    }
  };
  return h("button", { type: "button", class: tone, "aria-label": label, disabled, onclick: press }, name);
}

// A notification at the bottom of the page, announced by screen readers.
export function tell(text, tone = "good") {
  const note = h(`p.note.${tone}`, text, h("button.close", { type: "button", "aria-label": "Close", onclick: () => note.remove() }, "×"));
  document.getElementById("told").append(note);
  setTimeout(() => note.remove(), tone === "bad" ? 15000 : 5000);
}

// fields: [{name, label, type?, value?, required?, options?, hint?, rows?}]. Resolves to the input once `act` has succeeded, or to null if cancelled.
// `text` is a sentence or elements. Errors from `act` are shown in the dialog, which stays open. isGuarded: asks for confirmation before input is lost.
export function dialog(title, { text, fields = [], yes = "OK", no = "Cancel", tone = "", isGuarded = false, act = async () => {} }) {
  return new Promise((resolve) => {
    const words_ = h("p.refused", { role: "alert", hidden: true });
    const submit = async (event) => {
      event.preventDefault();
      const entered = Object.fromEntries(fields.map((each) => [each.name, entry(form.elements[each.name], each)]));
      go.setAttribute("aria-busy", "true");
      try {
        await act(entered);
        close(entered);
      } catch (error) {
        words_.textContent = error.message;
        words_.hidden = false;
      } finally {
        go.removeAttribute("aria-busy");
      }
    };
    const go = h("button", { type: "submit", class: tone || "main" }, yes);
    const cancel = async () => (!isChanged(form) || (await mayLose())) && close(null);
    const form = h("form", { onsubmit: submit }, typeof text === "string" ? h("p", text) : text, fields.map(field), words_,
      h("div.actions", go, h("button", { type: "button", onclick: cancel }, no)));
    if (isGuarded) guarded(form);
    const box = h("dialog", { "aria-label": title, oncancel: (event) => { event.preventDefault(); cancel(); }, onclose: () => close(null) }, h("h2", title), form);
    const close = (result) => {
      resolve(result);
      if (box.open) box.close(); // returns the focus to the element that had it
      box.remove();
    };
    box.abandon = () => close(null);
    document.body.append(box);
    box.showModal();
    (form.querySelector("input, select, textarea") || go).focus();
  });
}

// Asks whether unsaved input may be discarded. Resolves to false if the question is already open.
export async function mayLose() {
  if (document.querySelector("dialog.leaving")) return false;
  const asked = dialog("Leave without saving?", { text: "Your changes have not been saved and will be lost if you leave.", yes: "Leave without saving", no: "Stay", tone: "danger" });
  [...document.querySelectorAll("dialog")].at(-1).classList.add("leaving");
  return (await asked) !== null;
}

// The input of a field. A missing number or file is null.
export function entry(input, { type }) {
  if (type === "checkbox") return input.checked;
  if (type === "file") return input.files[0] ?? null;
  return type === "number" ? (input.value === "" ? null : Number(input.value)) : input.value;
}

export function field({ name, label, type = "text", value = "", required = false, options, hint, rows, ...more }) {
  const common = { name, required, ...more };
  const input = options
    ? h("select", common, options.map((each) => { const [v, text] = [each].flat().length > 1 ? each : [each, words(each)]; return h("option", { value: v, selected: v === value }, text); }))
    : type === "textarea" ? h("textarea", { ...common, rows: rows || 6 }, value) : h("input", { ...common, type, value: type === "checkbox" ? null : value, checked: type === "checkbox" && value });
  return h(type === "checkbox" ? "label.field.check" : "label.field", h("span", label), input, hint && h("small", hint));
}

// Asks for confirmation, and resolves to true once confirmed.
export async function confirmed(title, { text, yes, tone = "danger", act, done }) {
  const entered = await dialog(title, { text, yes, tone, act });
  if (entered !== null && done) tell(done);
  return entered !== null;
}

// ── e-mail content ──────────────────────────────────────────────────────────────────────────────────────

// Untrusted HTML in a sandboxed frame: its scripts do not run, and it loads nothing except images, if allowed.
// `key` names the e-mail: a frame with the same key is kept.
export function mailFrame(html, { key, images = false, title = "HTML of the e-mail" }) {
  const frame = h("iframe.mail", { "data-key": `frame ${key} ${images}`, sandbox: "allow-scripts allow-popups allow-popups-to-escape-sandbox", src: images ? "/static/frame-images.html" : "/static/frame.html", title, "data-own": true });
  const hear = (event) => {
    if (event.source !== frame.contentWindow) return;
    if (event.data === "ready") frame.contentWindow.postMessage({ html }, "*"); // the frame has no origin
    else if (Number.isFinite(event.data?.height)) frame.style.height = `${Math.min(20000, Math.max(80, event.data.height))}px`;
  };
  addEventListener("message", hear);
  new MutationObserver((_, watch) => {
    if (frame.isConnected) return;
    removeEventListener("message", hear);
    watch.disconnect();
  }).observe(document.getElementById("page"), { childList: true, subtree: true });
  return frame;
}
