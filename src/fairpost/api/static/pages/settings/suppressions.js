// The workspace's suppressed addresses, each with its reason and date.

import { get, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, moment, panel, table, tell } from "../../parts.js";
import { words } from "../../format.js";
import { more } from "./lists.js";

const PATH = "/v1/suppressions";
const KINDS = ["manual", "unsubscribe", "complaint", "hard_bounce", "soft_bounces"];

export default {
  load: ({ values }) => get(PATH, asked(values)),

  view(ctx) {
    const mayChange = ctx.is("manager", "admin");
    const none = ctx.values.search || ctx.values.kind ? "No matching suppressed addresses." : "No suppressed addresses.";
    return [
      mayChange && panel("Suppress an address", form("suppress", FIELDS, { yes: "Suppress", isShort: true, act: (entered, box) => suppress(ctx, entered, box) })),
      panel("Suppressed addresses",
        search(ctx),
        table("Suppressed addresses", ["Address", "Kind", "Blocks", "Reason", "Since", ...(mayChange ? [""] : [])], ctx.data.items.map((each) => row(ctx, each, mayChange)), none),
        more(ctx, PATH, asked(ctx.values))),
    ];
  },
};

const STOPS = { all: "all mail", bulk: "bulk mail" };

const FIELDS = [
  { name: "address", label: "Address", type: "email", required: true, maxlength: 500, autocomplete: "off" },
  { name: "reason", label: "Reason", maxlength: 500, hint: "Optional, for your records." },
  { name: "kind", label: "Kind", options: KINDS, value: "manual", hint: "The kind “unsubscribe” blocks only bulk mail. All other kinds also block urgent mail." },
];

const asked = ({ search: searched, kind }) => ({ search: searched, kind });

function search(ctx) {
  const submit = (event) => {
    event.preventDefault();
    ctx.go("/settings/suppressions", Object.fromEntries(new FormData(event.target)));
  };
  return h("form.filters", { role: "search", onsubmit: submit },
    h("input", { type: "search", name: "search", "aria-label": "Address or reason", placeholder: "Address or reason", value: ctx.values.search ?? "" }),
    h("select", { name: "kind", "aria-label": "Kind" }, h("option", { value: "" }, "All kinds"), KINDS.map((kind) => h("option", { value: kind, selected: kind === ctx.values.kind }, words(kind)))),
    h("button", { type: "submit" }, "Search"));
}

function row(ctx, each, mayChange) {
  const cells = [each.address, badge(each.kind, each.kind === "complaint" ? "bad" : "quiet"), STOPS[each.stops], each.reason, moment(each.created_at)];
  if (mayChange) cells.push(button("Remove", () => removeSuppression(ctx, each.address), { label: `Remove ${each.address}` }));
  return { key: each.address, cells };
}

async function suppress(ctx, { address, ...why }, box) {
  const added = await put(`${PATH}/${segment(address.trim())}`, why);
  tell(`${added.address} is suppressed${added.stops === "bulk" ? " for bulk mail" : ""}.`);
  box.reset();
  await ctx.reload();
}

async function removeSuppression(ctx, address) {
  const text = "The address will be able to receive mail again. Do not remove the addresses of people who asked you to stop e-mailing them.";
  if (await confirmed(`Remove ${address} from the suppression list?`, { text, yes: "Remove", act: () => remove(`${PATH}/${segment(address)}`), done: `${address} is no longer suppressed.` })) await ctx.reload();
}
