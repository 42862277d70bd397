// The product's own e-mails (welcome, codes, invitations), and a workspace's own words for them.

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
      each.problem ? badge("own words, not used", "bad") : each.is_overridden ? badge("own words", "good") : h("span.quiet", "as it comes"),
      each.fields.join(", ") || h("span.quiet", "none"),
      each.changed_at ? since(each.changed_at) : null,
    ],
  }));
  return panel("Product e-mails", h("p.quiet", "Each can be put into words of your own; the layout around them stays."), table("Product e-mails", ["e-mail", "words", "fields", "changed"], rows));
}

function opened(ctx) {
  const { portal, type, item, ...words } = ctx.data;
  const path = pathOf(portal, type);
  const mayChange = ctx.is("manager", "admin");
  const fields = [
    { name: "subject", label: "Subject", value: words.subject },
    { name: "preheader", label: "Preheader", value: words.preheader ?? "", hint: "What inboxes show after the subject. Empty: that of the files." },
    { name: "text", label: "Text", type: "textarea", rows: 10, value: words.text },
    { name: "html", label: "HTML", type: "textarea", rows: 12, value: words.html, hint: `Its fields: ${item.fields.join(", ") || "none"}.` },
  ];
  const save = (entered) => put(path, given(entered));
  const saved = async ({ warnings }) => {
    tell(["Your own words are in use.", ...warnings].join(" "));
    await ctx.reload();
  };
  return [
    heading(`${portal} / ${type}`, item.is_overridden && mayChange && button("Back to the words of the files", () => reset(ctx, path), { tone: "danger" })),
    item.problem && h("p.notice.bad", `The words of this workspace are not used any more: ${item.problem}`),
    editor(`portal ${portal} ${type} ${item.is_overridden ? "own" : "files"}`, fields, {
      preview: (entered, _, signal) => post(`${path}/preview`, { words: given(entered) }, { signal }),
      save: mayChange ? save : null,
      saved,
    }),
  ];
}

const given = ({ preheader, ...words }) => ({ ...words, preheader: preheader.trim() ? preheader : null });

async function reset(ctx, path) {
  const text = "Your own words are gone then, and the e-mail says again what the files say.";
  if (await confirmed("Back to the words of the files?", { text, yes: "Back to them", act: () => remove(path), done: "The words of the files are in use." })) await ctx.reload();
}
