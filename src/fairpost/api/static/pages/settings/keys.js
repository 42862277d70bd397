// Keys with which programs ask the API. A key is shown once, when it is made.

import { get, post, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, moment, panel, since, table } from "../../parts.js";
import { number } from "../../words.js";
import { copied } from "./lists.js";

const PATH = "/v1/keys";
const SCOPES = [["read", "read: look at everything"], ["send", "send: hand in e-mails"], ["manage", "manage: change everything"]];
const FIELDS = [
  { name: "name", label: "Name", maxlength: 200, hint: "What it is for: the shop, the nightly import." },
  { name: "expires_at", label: "Ends on", type: "date", hint: "Empty: it works until it is revoked." },
  { name: "per_minute", label: "Requests a minute", type: "number", min: 1, hint: "Empty: as many as is usual." },
  { name: "scopes", label: "It may", type: "choices", options: SCOPES, value: ["read"] },
];

export default {
  load: () => get(PATH),

  view(ctx) {
    return [
      ctx.state.made && panel("The new key", h("p", "Copy it now: it is shown this once, and nobody can find it out later."), copied("The new key", ctx.state.made.key)),
      panel("Make a key", form("key", FIELDS, { yes: "Make a key", isShort: true, act: (entered, box) => make(ctx, entered, box) })),
      panel("Keys", table("Keys", ["name", "may", ">a minute", "made", "ends", "last used", "state", ""], ctx.data.map((key) => row(ctx, key)), "There is no key yet. A program needs one to ask the API.")),
    ];
  },
};

async function make(ctx, { name, scopes, expires_at, per_minute }, box) {
  const given = { name, scopes, expires_at: expires_at ? new Date(`${expires_at}T00:00:00`).toISOString() : null };
  ctx.state.made = await post(PATH, per_minute === null ? given : { ...given, per_minute });
  box.reset();
  await ctx.reload();
  document.querySelector(".copied input")?.focus();
}

function row(ctx, key) {
  const isOver = key.expires_at && new Date(key.expires_at) <= Date.now();
  const tone = key.revoked_at ? badge("revoked", "bad") : isOver ? badge("over") : badge("works", "good");
  const revoke = key.revoked_at ? "" : button("Revoke", () => revoked(ctx, key), { tone: "danger", label: `Revoke ${key.name || key.id}` });
  return {
    key: key.id,
    cells: [[key.name || h("span.quiet", "no name"), " ", h("small.mono", key.id)], key.scopes.join(", "), number(key.per_minute), [moment(key.created_at), " ", h("small", maker(key))],
      key.expires_at ? moment(key.expires_at) : "never", key.last_used_at ? since(key.last_used_at) : "never", tone, revoke],
  };
}

function maker(key) {
  if (!key.maker) return key.created_by;
  const withKey = key.created_by.startsWith("key ") ? ` with ${key.created_by}` : "";
  const now = !key.is_maker_member ? ", no member any more" : key.maker_role === "manager" ? "" : `, now ${key.maker_role}`;
  return `${key.maker}${withKey}${now}`;
}

async function revoked(ctx, key) {
  const text = "Whoever uses it comes in no more, at once. It cannot be taken back; make another key instead.";
  const act = () => remove(`${PATH}/${segment(key.id)}`);
  if (!(await confirmed(`Revoke ${key.name || key.id}?`, { text, yes: "Revoke", act, done: "The key is revoked." }))) return;
  if (ctx.state.made?.id === key.id) ctx.state.made = null;
  await ctx.reload();
}
