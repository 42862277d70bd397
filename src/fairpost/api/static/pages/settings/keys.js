// API keys. A key is shown only once, when it is created.

import { get, post, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, moment, panel, since, table } from "../../parts.js";
import { number } from "../../format.js";
import { copied } from "./lists.js";

const PATH = "/v1/keys";
const SCOPES = [["read", "Read everything"], ["send", "Send e-mails"], ["manage", "Change everything"]];
const FIELDS = [
  { name: "name", label: "Name", maxlength: 200, hint: "The purpose of the key, for example “shop” or “nightly import”." },
  { name: "expires_at", label: "Expires", type: "date", hint: "Leave empty if the key should not expire." },
  { name: "per_minute", label: "Requests per minute", type: "number", min: 1, hint: "Leave empty for the default." },
  { name: "scopes", label: "Permissions", type: "choices", options: SCOPES, value: ["read"] },
];

export default {
  load: () => get(PATH),

  view(ctx) {
    return [
      ctx.state.made && panel("New key", h("p", "Copy this key now. You will not be able to see the key again."), copied("New key", ctx.state.made.key)),
      panel("Create a key", form("key", FIELDS, { yes: "Create key", isShort: true, act: (entered, box) => make(ctx, entered, box) })),
      panel("Keys", table("Keys", ["Name", "Permissions", ">Per minute", "Created", "Expires", "Last used", "State", ""], ctx.data.map((key) => row(ctx, key)), "No keys yet. Programs need a key to use the API.")),
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
  const tone = key.revoked_at ? badge("revoked", "bad") : isOver ? badge("expired") : badge("active", "good");
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
  const now = !key.is_maker_member ? ", no longer a member" : key.maker_role === "manager" ? "" : `, now ${key.maker_role}`;
  return `${key.maker}${withKey}${now}`;
}

async function revoked(ctx, key) {
  const text = "Programs that use this key will lose access immediately. You cannot undo this.";
  const act = () => remove(`${PATH}/${segment(key.id)}`);
  if (!(await confirmed(`Revoke ${key.name || key.id}?`, { text, yes: "Revoke", act, done: "Key revoked." }))) return;
  if (ctx.state.made?.id === key.id) ctx.state.made = null;
  await ctx.reload();
}
