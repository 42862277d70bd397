// What campaigns say: the list of templates, and one of them with a preview.

import { get, post, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { button, confirmed, dialog, heading, link, panel, since, table, tell } from "../../parts.js";
import { forget } from "../../unsaved.js";
import { editor } from "./editor.js";
import { more } from "./lists.js";

const PATH = "/v1/templates";
const HINT = "Places for what differs: {{ first_name or \"there\" }}. A field without a fallback is one that nobody may lack.";

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
    cells: [link(`/settings/templates/${segment(each.name)}`, each.name), each.subject, each.sequences.join(", ") || h("span.quiet", "nothing yet"), since(each.changed_at)],
  }));
  return panel("Templates",
    ctx.is("manager", "admin") && h("p", button("Write a template", () => begin(ctx), { tone: "main" })),
    table("Templates", ["name", "subject", "used by", "changed"], rows, "There is no template yet. A campaign says what a template says: write one first."),
    more(ctx, PATH));
}

const begin = (ctx) => dialog("Write a template", {
  fields: [{ name: "name", label: "Name", required: true, maxlength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, dashes", hint: "Letters, digits, dots and dashes. One that is there already is opened." }],
  yes: "Go on",
  act: async ({ name }) => void ctx.go(`/settings/templates/${segment(name)}`),
});

function opened(ctx) {
  const { data } = ctx;
  const path = `${PATH}/${segment(data.name)}`;
  const mayChange = ctx.is("manager", "admin");
  const fields = [
    { name: "subject", label: "Subject", value: data.subject, maxlength: 1000 },
    { name: "text", label: "Text", type: "textarea", rows: 12, value: data.text ?? "", hint: HINT },
    { name: "html", label: "HTML", type: "textarea", rows: 14, value: data.html ?? "", hint: "A text, or HTML, or both." },
  ];
  const save = (words) => put(path, given(words));
  const saved = async () => {
    tell(`Template ${data.name} is saved.`);
    await ctx.reload();
  };
  return [
    heading(data.name, !data.isNew && mayChange && button("Remove", () => removed(ctx, path), { tone: "danger" })),
    h("p.quiet", data.isNew ? "It is new: it is kept when you save it." : usedBy(data.sequences)),
    editor(`template ${data.name}`, fields, {
      preview: (words, prospect, signal) => post(`${path}/preview`, { words: given(words), prospect }, { signal }),
      save: mayChange ? save : null,
      saved,
      prospects: true,
    }),
  ];
}

const given = ({ subject, text, html }) => ({ subject, text: text.trim() ? text : null, html: html.trim() ? html : null });
const usedBy = (sequences) => `${sequences.length ? `Used by ${sequences.join(", ")}.` : "Nothing uses it yet."} Campaigns that are launched keep the words that they were launched with.`;

async function removed(ctx, path) {
  const text = "Its words are gone then. It cannot be removed while a sequence uses it.";
  if (!(await confirmed(`Remove template ${ctx.data.name}?`, { text, yes: "Remove", act: () => remove(path), done: "The template is removed." }))) return;
  forget();
  await ctx.go("/settings/templates");
}
