// The list of templates, and the page of one template with its preview.

import { get, post, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { button, confirmed, dialog, heading, link, panel, since, table, tell } from "../../parts.js";
import { forget } from "../../unsaved.js";
import { readable } from "../../format.js";
import { headerBody, headerInputs } from "../header-fields.js";
import { editor } from "./editor.js";
import { more } from "./lists.js";

const PATH = "/v1/templates";
const HINT = "Insert fields with {{ first_name or \"there\" }}. A field without a fallback is required for every recipient.";

export default {
  load: ({ params }) => (params.name ? one(params.name) : get(PATH)),
  view: (ctx) => (ctx.params.name ? opened(ctx) : listed(ctx)),
};

async function one(name) {
  try {
    return await get(`${PATH}/${segment(name)}`);
  } catch (error) {
    if (error.code !== "not_found") throw error;
    return { name, subject: "", text: "", html: "", sequences: [], isNew: true };
  }
}

function listed(ctx) {
  const rows = ctx.data.items.map((each) => ({
    key: each.name,
    cells: [link(`/settings/templates/${segment(each.name)}`, each.name), readable(each.subject), each.sequences.join(", ") || h("span.quiet", "not used"), since(each.changed_at)],
  }));
  return panel("Templates",
    ctx.is("manager", "admin") && h("p", button("New template", () => begin(ctx), { tone: "main" })),
    table("Templates", ["Name", "Subject", "Used by", "Changed"], rows, "No templates yet. Create a template to use in campaigns."),
    more(ctx, PATH));
}

const begin = (ctx) => dialog("New template", {
  fields: [{ name: "name", label: "Name", required: true, maxlength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, dashes and underscores", hint: "Letters, digits, dots, dashes and underscores. If the template already exists, it is opened." }],
  yes: "Continue",
  act: async ({ name }) => void ctx.go(`/settings/templates/${segment(name)}`),
});

function opened(ctx) {
  const { data } = ctx;
  const path = `${PATH}/${segment(data.name)}`;
  const mayChange = ctx.is("manager", "admin");
  const fields = [
    { name: "subject", label: "Subject", value: data.subject, maxlength: 998 },
    { name: "text", label: "Text", type: "textarea", rows: 12, value: data.text ?? "", hint: HINT },
    { name: "html", label: "HTML", type: "textarea", rows: 14, value: data.html ?? "", hint: "Enter text, HTML, or both." },
    ...headerInputs(data),
  ];
  const save = (words) => put(path, given(words));
  const saved = async () => {
    tell(`Template ${data.name} saved.`);
    await ctx.reload();
  };
  return [
    heading(data.name, !data.isNew && mayChange && button("Remove", () => removed(ctx, path), { tone: "danger" })),
    h("p.quiet", data.isNew ? "New template, not saved yet." : usedBy(data.sequences)),
    editor(`template ${data.name}`, fields, {
      preview: (words, prospect, signal) => post(`${path}/preview`, { words: given(words), prospect }, { signal }),
      save: mayChange ? save : null,
      saved,
      prospects: true,
    }),
  ];
}

const given = ({ subject, text, html, ...headers }) => ({ subject, text: text.trim() ? text : null, html: html.trim() ? html : null, ...headerBody(headers) });
const usedBy = (sequences) => `${sequences.length ? `Used by ${sequences.join(", ")}.` : "Not used yet."} Launched campaigns keep the content they were launched with.`;

async function removed(ctx, path) {
  const text = "This deletes the template. You cannot remove a template that a sequence uses.";
  if (!(await confirmed(`Remove template ${ctx.data.name}?`, { text, yes: "Remove", act: () => remove(path), done: "Template removed." }))) return;
  forget();
  await ctx.go("/settings/templates");
}
