// Domains in whose name the workspace may write, and the DNS record that shows them to be its own.

import { get, post, put, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, empty, panel, since, tell } from "../../parts.js";
import { actions, copied } from "./lists.js";

const PATH = "/v1/domains";
const FIELDS = [{ name: "domain", label: "Domain", required: true, maxlength: 260, placeholder: "example.com", autocomplete: "off" }];

export default {
  load: () => get(PATH),

  view(ctx) {
    const mayChange = ctx.is("manager", "admin");
    return [
      mayChange && panel("Claim a domain", form("domain", FIELDS, { yes: "Claim", isShort: true, act: (entered, box) => claim(ctx, entered, box) })),
      ctx.data.length ? ctx.data.map((domain) => one(ctx, domain, mayChange)) : empty("No domain is claimed. Accounts that the operator lends send in the name of a domain only if it is proven."),
    ];
  },
};

function one(ctx, { domain, is_proven, proven_at, checked_at, record }, mayChange) {
  const path = `${PATH}/${segment(domain)}`;
  return panel(domain,
    h("p", is_proven ? [badge("proven", "good"), " ", since(proven_at)] : badge("not proven yet", "wait"), checked_at ? [" · checked ", since(checked_at)] : null),
    !is_proven && [
      h("p", `Publish this ${record.type} record where the DNS of ${domain} is kept, then check it. It may take minutes until others see it.`),
      h("h3", "Name"), copied(`Name of the record of ${domain}`, record.name),
      h("h3", "Value"), copied(`Value of the record of ${domain}`, record.value),
    ],
    mayChange && actions(button("Check", () => check(ctx, domain, path), { tone: is_proven ? "" : "main", label: `Check ${domain}` }), button("Remove", () => removed(ctx, domain, path), { tone: "danger", label: `Remove ${domain}` })));
}

async function claim(ctx, { domain }, box) {
  const claimed = await put(`${PATH}/${segment(domain.trim())}`);
  tell(`${claimed.domain} is claimed. Publish its record now.`);
  box.reset();
  await ctx.reload();
}

async function check(ctx, domain, path) {
  const found = await post(`${path}/check`);
  tell(found.is_proven ? `${domain} is proven.` : found.words, found.is_proven ? "good" : "bad");
  await ctx.reload();
}

async function removed(ctx, domain, path) {
  if (await confirmed(`Remove ${domain}?`, { text: "Nothing goes out in its name any more.", yes: "Remove", act: () => remove(path), done: `${domain} is removed.` })) await ctx.reload();
}
