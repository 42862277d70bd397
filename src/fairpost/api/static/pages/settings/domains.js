// The domains that the workspace can send from, the DNS record that verifies each domain, and what receiving servers see.

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
      mayChange && panel("Add a domain", form("domain", FIELDS, { yes: "Add", isShort: true, act: (entered, box) => claim(ctx, entered, box) })),
      ctx.data.length ? ctx.data.map((domain) => one(ctx, domain, mayChange)) : empty("No domains yet. To send from your own domain through shared accounts, add and verify the domain."),
    ];
  },
};

function one(ctx, { domain, is_proven, proven_at, checked_at, record, findings }, mayChange) {
  const path = `${PATH}/${segment(domain)}`;
  return panel(domain,
    h("p", is_proven ? [badge("verified", "good"), " ", since(proven_at)] : badge("not verified", "wait"), checked_at ? [" · checked ", since(checked_at)] : null),
    !is_proven && [
      h("p", `Add this ${record.type} record to the DNS for ${domain}, then choose Check. It can take a few minutes for the record to become visible.`),
      h("h3", "Name"), copied(`Record name for ${domain}`, record.name),
      h("h3", "Value"), copied(`Record value for ${domain}`, record.value),
    ],
    findings.map((finding) => found(domain, finding)),
    mayChange && actions(button("Check", () => check(ctx, domain, path), { tone: is_proven ? "" : "main", label: `Check ${domain}` }),
      findings.some(({ code }) => code === "domain.dkim_missing") && button("Add a DKIM key", () => sign(ctx, domain, path), { label: `Add a DKIM key to ${domain}` }),
      button("Remove", () => removed(ctx, domain, path), { tone: "danger", label: `Remove ${domain}` })));
}

const TONES = { good: "good", warning: "wait", bad: "bad", unknown: "" };

function found(domain, { what, grade, message, record }) {
  const title = what.toUpperCase();
  return [
    h("p", badge(`${title}: ${grade}`, TONES[grade]), " ", message),
    record && [
      h("h3", `${record.type} record`), copied(`${title} record name for ${domain}`, record.name),
      h("h3", "Value"), copied(`${title} record value for ${domain}`, record.value),
    ],
  ];
}

async function sign(ctx, domain, path) {
  await post(`${path}/keys`, {});
  tell(`A DKIM key for ${domain} was added. Add the key's DNS record now.`);
  await check(ctx, domain, path);
}

async function claim(ctx, { domain }, box) {
  const claimed = await put(`${PATH}/${segment(domain.trim())}`);
  tell(`${claimed.domain} added. Add the domain's DNS record now.`);
  box.reset();
  await ctx.reload();
}

async function check(ctx, domain, path) {
  const found = await post(`${path}/check`);
  tell(found.is_proven ? `${domain} is verified.` : found.words, found.is_proven ? "good" : "bad");
  await ctx.reload();
}

async function removed(ctx, domain, path) {
  if (await confirmed(`Remove ${domain}?`, { text: "This workspace will no longer be able to send from this domain.", yes: "Remove", act: () => remove(path), done: `${domain} removed.` })) await ctx.reload();
}
