// Addresses that the workspace writes to no more: why, and since when.

import { get, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, moment, panel, table, tell } from "../../parts.js";
import { words } from "../../words.js";
import { more } from "./lists.js";

const PATH = "/v1/suppressions";
const KINDS = ["manual", "unsubscribe", "complaint", "hard_bounce", "soft_bounces"];

export default {
  load: ({ values }) => get(PATH, asked(values)),

  view(ctx) {
    const mayChange = ctx.is("manager", "admin");
    const none = ctx.values.search || ctx.values.kind ? "No address is suppressed that fits. To those that are not here, mail goes out." : "No address is suppressed: mail goes out to everybody.";
    return [
      mayChange && panel("Suppress an address", form("suppress", FIELDS, { yes: "Suppress", isShort: true, act: (entered, box) => suppress(ctx, entered, box) })),
      panel("Suppressed",
        search(ctx),
        table("Suppressed addresses", ["address", "kind", "stops", "why", "since", ...(mayChange ? [""] : [])], ctx.data.items.map((each) => row(ctx, each, mayChange)), none),
        more(ctx, PATH, asked(ctx.values))),
    ];
  },
};

const STOPS = { all: "all mail", bulk: "bulk mail" };

const FIELDS = [
  { name: "address", label: "Address", type: "email", required: true, maxlength: 500, autocomplete: "off" },
  { name: "reason", label: "Why", maxlength: 500, hint: "For whoever asks later." },
  { name: "kind", label: "Kind", options: KINDS, value: "manual", hint: "An unsubscribe stops bulk mail; every other kind stops urgent mail as well." },
];

const asked = ({ search: searched, kind }) => ({ search: searched, kind });

function search(ctx) {
  const submit = (event) => {
    event.preventDefault();
    ctx.go("/settings/suppressions", Object.fromEntries(new FormData(event.target)));
  };
  return h("form.filters", { role: "search", onsubmit: submit },
    h("input", { type: "search", name: "search", "aria-label": "Address or reason", placeholder: "Address or reason", value: ctx.values.search ?? "" }),
    h("select", { name: "kind", "aria-label": "Kind" }, h("option", { value: "" }, "every kind"), KINDS.map((kind) => h("option", { value: kind, selected: kind === ctx.values.kind }, words(kind)))),
    h("button", { type: "submit" }, "Search"));
}

function row(ctx, each, mayChange) {
  const cells = [each.address, badge(each.kind, each.kind === "complaint" ? "bad" : "quiet"), STOPS[each.stops], each.reason, moment(each.created_at)];
  if (mayChange) cells.push(button("Remove", () => unsuppress(ctx, each.address), { label: `Remove ${each.address}` }));
  return { key: each.address, cells };
}

async function suppress(ctx, { address, ...why }, box) {
  const added = await put(`${PATH}/${segment(address.trim())}`, why);
  tell(`${added.address} gets no more ${added.stops === "bulk" ? "bulk mail" : "mail"}.`);
  box.reset();
  await ctx.reload();
}

async function unsuppress(ctx, address) {
  const text = "Mail goes out to it again. Whoever asked for no more mail should not get any.";
  if (await confirmed(`Write to ${address} again?`, { text, yes: "Remove", act: () => remove(`${PATH}/${segment(address)}`), done: `${address} may be written to again.` })) await ctx.reload();
}
