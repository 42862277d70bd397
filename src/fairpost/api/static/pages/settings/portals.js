// The product's own e-mails (welcome, codes, invitations), and the versions that a workspace wrote.

import { get, post, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { badge, button, confirmed, heading, link, panel, since, table, tell } from "../../parts.js";
import { editor } from "./editor.js";

const PATH = "/v1/portals";

export default {
  load: ({ params }) => (params.name ? one(params.name) : get(PATH)),
  view: (ctx) => (ctx.params.name ? opened(ctx) : listed(ctx)),
};

async function one(name) {
  const [portal, type] = name.split("/");
  const [words, all] = await Promise.all([get(pathOf(portal, type)), get(PATH)]);
  return { ...words, item: all.find((each) => each.portal === portal && each.type === type) };
}

const pathOf = (portal, type) => `${PATH}/${segment(portal)}/${segment(type ?? "")}`;

function listed({ data }) {
  const rows = data.map((each) => ({
    key: `${each.portal}/${each.type}`,
    cells: [
      link(`/settings/portals/${each.portal}/${each.type}`, `${each.portal} / ${each.type}`),
      each.problem ? badge("custom, not in use", "bad") : each.is_overridden ? badge("custom", "good") : h("span.quiet", "default"),
      each.fields.join(", ") || h("span.quiet", "none"),
      each.changed_at ? since(each.changed_at) : null,
    ],
  }));
  return panel("Product e-mails", h("p.quiet", "You can write your own version of each e-mail. The layout stays the same."), table("Product e-mails", ["E-mail", "Content", "Fields", "Changed"], rows));
}

function opened(ctx) {
  const { portal, type, item, ...words } = ctx.data;
  const path = pathOf(portal, type);
  const mayChange = ctx.is("manager", "admin");
  const fields = [
    { name: "subject", label: "Subject", value: words.subject, maxlength: 998 },
    { name: "preheader", label: "Preheader", value: words.preheader ?? "", hint: "Shown after the subject in inboxes. Leave empty for the default." },
    { name: "text", label: "Text", type: "textarea", rows: 10, value: words.text },
    { name: "html", label: "HTML", type: "textarea", rows: 12, value: words.html, hint: `Available fields: ${item.fields.join(", ") || "none"}.` },
  ];
  const save = (entered) => put(path, given(entered));
  const saved = async ({ warnings }) => {
    tell(["Saved. Your version is in use.", ...warnings].join(" "));
    await ctx.reload();
  };
  return [
    heading(`${portal} / ${type}`, item.is_overridden && mayChange && button("Restore default", () => reset(ctx, path), { tone: "danger" })),
    item.problem && h("p.notice.bad", `This workspace's version is not in use: ${item.problem}`),
    editor(`portal ${portal} ${type} ${item.is_overridden ? "own" : "files"}`, fields, {
      preview: (entered, _, signal) => post(`${path}/preview`, { words: given(entered) }, { signal }),
      save: mayChange ? save : null,
      saved,
    }),
  ];
}

const given = ({ preheader, ...words }) => ({ ...words, preheader: preheader.trim() ? preheader : null });

async function reset(ctx, path) {
  const text = "This deletes your version of the e-mail.";
  if (await confirmed("Restore the default?", { text, yes: "Restore default", act: () => remove(path), done: "Default restored." })) await ctx.reload();
}
