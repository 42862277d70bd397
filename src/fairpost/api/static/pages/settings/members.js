// Members of the current workspace, or admins of the installation.

import { get, post, put, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, dialog, panel, since, table, tell } from "../../parts.js";
import { actions } from "./lists.js";

const ROLES = [["viewer", "Viewer: can read"], ["sender", "Sender: can read and send"], ["manager", "Manager: can change everything in the workspace"]];

const KEYS = { name: "keys", label: "API keys created by this member", options: [["keep", "Keep the keys: they belong to the workspace"], ["revoke", "Revoke the keys"]], value: "keep" };
const REVOKING = "?keys=revoke";

const pathOf = (ctx) => (ctx.workspace ? "/v1/members" : "/v1/admin/people");

export default {
  load: (ctx) => get(pathOf(ctx)),

  view(ctx) {
    const isOfWorkspace = Boolean(ctx.workspace);
    const fields = [
      { name: "address", label: "Address", type: "email", required: true, autocomplete: "off" },
      { name: "name", label: "Name", maxlength: 80, autocomplete: "off" },
      ...(isOfWorkspace ? [{ name: "role", label: "Role", options: ROLES, value: "viewer" }] : []),
    ];
    const title = isOfWorkspace ? `Members of ${ctx.workspace}` : "Admins";
    return [
      panel(isOfWorkspace ? "Invite a member" : "Invite an admin", form(`invite ${ctx.workspace}`, fields, { yes: "Invite", isShort: true, act: (entered, box) => invite(ctx, entered, box) })),
      panel(title, table(title, ["Name", "Address", "Role", "State", "Last sign-in", ""], ctx.data.map((person) => row(ctx, person)), "No members yet. Only admins can open this workspace until you invite its first member.")),
    ];
  },
};

function row(ctx, person) {
  const isYou = person.address === ctx.session.address;
  const stands = person.disabled_at ? badge("disabled", "bad") : person.has_password || person.last_sign_in_at ? badge("active", "good") : badge("invited", "wait");
  return {
    key: person.address,
    cells: [person.name || null, [person.address, isYou && h("span.quiet", " (you)")], person.role, stands, person.last_sign_in_at ? since(person.last_sign_in_at) : "never", isYou ? "" : changes(ctx, person)],
  };
}

function changes(ctx, person) {
  const path = `${pathOf(ctx)}/${segment(person.address)}`;
  const named = (words) => ({ label: `${words}: ${person.address}` });
  const isMember = Boolean(ctx.workspace);
  const enable = async () => {
    await post(`${path}/enable`);
    tell(`${person.address} can sign in again.`);
    await ctx.reload();
  };
  return actions(
    isMember && !person.disabled_at && button("Role", () => changeRole(ctx, person, path), named("Change role")),
    isMember && !person.disabled_at && button("Reset password", () => sendLink(person, path), named("Reset password")),
    person.disabled_at ? button("Enable", enable, named("Enable")) : button("Disable", () => disable(ctx, person, path), { tone: "danger", ...named("Disable") }));
}

async function invite(ctx, entered, box) {
  const offered = await post(pathOf(ctx), entered);
  tell(`Invitation sent to ${offered.address}.`);
  box.reset();
  await ctx.reload();
}

async function changeRole(ctx, person, path) {
  const keys = person.role === "manager" ? [{ ...KEYS, label: "API keys created by this member, if the member is no longer a manager" }] : [];
  const entered = await dialog(`Role for ${person.address}`, {
    text: "Changing the role will sign the member out.",
    fields: [{ name: "role", label: "Role", options: ROLES, value: person.role }, ...keys],
    yes: "Save",
    act: async ({ role, keys: also }) => tellOfKeys(await put(`${path}/role${also === "revoke" ? REVOKING : ""}`, { role })),
  });
  if (entered) await ctx.reload();
}

// A member who can no longer sign in may still have working keys.
function tellOfKeys(changed) {
  const names = (keys) => keys.map((key) => key.name || key.id).join(", ");
  if (changed.keys?.length) tell(`API keys created by ${changed.address} still work: ${names(changed.keys)}. You can revoke them under API keys.`, "bad");
  if (changed.keys_revoked?.length) tell(`Revoked: ${names(changed.keys_revoked)}.`);
}

const sendLink = (person, path) => confirmed(`Reset the password for ${person.address}?`, {
  text: "This sends the member a link to choose a new password. The current password remains valid until the member chooses a new one.",
  yes: "Send link",
  tone: "main",
  act: () => post(`${path}/reset`),
  done: `Link sent to ${person.address}.`,
});

async function disable(ctx, person, path) {
  const text = "This ends all of the member's sessions. The member will not be able to sign in until you enable them again.";
  const entered = await dialog(`Disable ${person.address}?`, {
    text,
    fields: ctx.workspace ? [KEYS] : [],
    yes: "Disable",
    tone: "danger",
    act: async ({ keys }) => {
      const changed = await post(`${path}/disable${keys === "revoke" ? REVOKING : ""}`);
      tell(`${person.address} is disabled.`);
      tellOfKeys(changed);
    },
  });
  if (entered) await ctx.reload();
}
