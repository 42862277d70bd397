// A template editor with a live preview.

import { h } from "../../dom.js";
import { entered, form } from "../../form.js";
import { columns, field, mailFrame, panel } from "../../parts.js";
import { told } from "../../format.js";

const PAUSE_MS = 250;

// preview(content, prospect, signal) → the rendered e-mail. save(content) is null if the editor is read-only; after saving, saved(result) is called. prospects: whether a prospect can be chosen.
export function editor(key, fields, { preview, save, saved, beside = null, prospects = false }) {
  const pane = new Pane(key);
  let timer = 0;
  let asked = new AbortController();
  const show = async () => {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      pane.show(await preview(entered(words, fields), prospect?.querySelector("input").value.trim() || null, signal));
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) pane.refuse(error);
    }
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(show, PAUSE_MS);
  };
  const prospect = prospects ? field({ name: "prospect", label: "Preview as", type: "search", placeholder: "ada@example.com", hint: "The address of a prospect. Leave empty for sample data.", oninput: soon }) : null;
  const drawn = save ? fields : fields.map((each) => ({ ...each, readonly: true }));
  const words = form(key, drawn, { yes: save ? "Save" : null, act: save, done: saved, beside, oninput: soon, isGuarded: Boolean(save) });
  queueMicrotask(() => words.isConnected && show()); // not called if the previous editor was kept
  return h("div.editor", { "data-key": `editor ${key}`, "data-own": true }, columns(panel("Content", words), panel("Preview", prospect, pane.element)));
}

class Pane {
  constructor(key) {
    this.refusal = h("p.notice.wait", { role: "status", hidden: true });
    this.subject = h("p.subject");
    this.frames = new Frames(key);
    this.text = h("pre", { tabindex: 0 });
    this.fields = h("div");
    this.html = part("HTML", this.frames.element);
    this.plain = part("Plain text", this.text);
    this.shown = h("div.preview", this.subject, this.html, this.plain, this.fields);
    this.element = h("div", this.refusal, this.shown);
  }

  show({ subject, text, html, required, optional, values }) {
    this.refusal.hidden = true;
    this.shown.classList.remove("old");
    this.subject.replaceChildren(h("span.quiet", "Subject: "), h("strong", subject));
    this.html.hidden = html === null;
    this.plain.hidden = text === null;
    this.text.textContent = text ?? "";
    this.frames.show(html ?? "");
    if (required) this.fields.replaceChildren(...fieldsOf(required, optional, values));
  }

  // While the user types, the last preview stays visible.
  refuse(error) {
    this.refusal.textContent = error.message.replace(/^words\./, "").replace(/^prospect: /, "This prospect has missing fields: ");
    this.refusal.hidden = false;
    this.shown.classList.add("old");
  }
}

// Each preview has its own frame. The previous frame stays until the next one is ready, to avoid flickering.
class Frames {
  #shown = null;
  #coming = null;
  #heard = new AbortController();

  constructor(key) {
    this.key = key;
    this.number = 0;
    this.element = h("div.frames");
  }

  show(html) {
    if (html === this.html) return;
    this.html = html;
    this.#heard.abort();
    this.#coming?.remove();
    this.#heard = new AbortController();
    this.#coming = mailFrame(html, { key: `preview ${this.key} ${(this.number += 1)}` });
    if (this.#shown) this.#coming.classList.add("coming");
    addEventListener("message", (event) => this.#hear(event), { signal: this.#heard.signal });
    this.element.append(this.#coming);
  }

  #hear(event) {
    if (event.source !== this.#coming?.contentWindow || !Number.isFinite(event.data?.height)) return;
    this.#heard.abort();
    this.#shown?.remove();
    this.#coming.classList.remove("coming");
    [this.#shown, this.#coming] = [this.#coming, null];
  }
}

const part = (title, content) => h("div", h("h3", title), content);

function fieldsOf(required, optional, values) {
  const one = (name, kind) => h("li", h("code", name), ` ${kind}`, name in values ? [": ", h("q", told(values[name]))] : null);
  const all = [...required.map((name) => one(name, "required")), ...optional.map((name) => one(name, "optional"))];
  return all.length ? [h("h3", "Fields"), h("ul", all)] : [];
}

