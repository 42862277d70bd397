// Who may sign in: the members of the workspace that is open, or else those who run the service.

import { get, post, put, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, dialog, panel, since, table, tell } from "../../parts.js";
import { actions } from "./lists.js";

const ROLES = [["viewer", "viewer: looks"], ["sender", "sender: looks and sends"], ["manager", "manager: changes everything in the workspace"]];

const KEYS = { name: "keys", label: "Keys that this member made", options: [["keep", "stay: they are the workspace's"], ["revoke", "are revoked, too"]], value: "keep" };
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
    const title = isOfWorkspace ? `Members of ${ctx.workspace}` : "Admins: those who run the service";
    return [
      panel(isOfWorkspace ? "Invite a member" : "Invite an admin", form(`invite ${ctx.workspace}`, fields, { yes: "Invite", isShort: true, act: (entered, box) => invite(ctx, entered, box) })),
      panel(title, table(title, ["name", "address", "role", "state", "signed in", ""], ctx.data.map((person) => row(ctx, person)), "Nobody yet: whoever runs the service sees this workspace. Invite its first member.")),
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
    tell(`${person.address} may sign in again.`);
    await ctx.reload();
  };
  return actions(
    isMember && !person.disabled_at && button("Role", () => changeRole(ctx, person, path), named("Change the role")),
    isMember && !person.disabled_at && button("Send a link", () => sendLink(person, path), named("Send a link to choose a password")),
    person.disabled_at ? button("Enable", enable, named("Enable")) : button("Disable", () => disable(ctx, person, path), { tone: "danger", ...named("Disable") }));
}

async function invite(ctx, entered, box) {
  const offered = await post(pathOf(ctx), entered);
  tell(`An invitation is on its way to ${offered.address}.`);
  box.reset();
  await ctx.reload();
}

async function changeRole(ctx, person, path) {
  const keys = person.role === "manager" ? [{ ...KEYS, label: "Keys that this manager made, if this is the end of that" }] : [];
  const entered = await dialog(`The role of ${person.address}`, {
    text: "A new role ends the member's sessions.",
    fields: [{ name: "role", label: "Role", options: ROLES, value: person.role }, ...keys],
    yes: "Change",
    act: async ({ role, keys: also }) => tellOfKeys(await put(`${path}/role${also === "revoke" ? REVOKING : ""}`, { role })),
  });
  if (entered) await ctx.reload();
}

// Who may sign in no more may still have a key.
function tellOfKeys(changed) {
  const names = (keys) => keys.map((key) => key.name || key.id).join(", ");
  if (changed.keys?.length) tell(`Keys that ${changed.address} made still open: ${names(changed.keys)}. They can be revoked under Keys.`, "bad");
  if (changed.keys_revoked?.length) tell(`Revoked: ${names(changed.keys_revoked)}.`);
}

const sendLink = (person, path) => confirmed(`Send ${person.address} a link?`, {
  text: "With it another password can be chosen. The old one works until then.",
  yes: "Send",
  tone: "main",
  act: () => post(`${path}/reset`),
  done: `A link is on its way to ${person.address}.`,
});

async function disable(ctx, person, path) {
  const text = "All sessions end at once, and nobody signs in with this address until it is enabled again.";
  const entered = await dialog(`Disable ${person.address}?`, {
    text,
    fields: ctx.workspace ? [KEYS] : [],
    yes: "Disable",
    tone: "danger",
    act: async ({ keys }) => {
      const changed = await post(`${path}/disable${keys === "revoke" ? REVOKING : ""}`);
      tell(`${person.address} is kept out.`);
      tellOfKeys(changed);
    },
  });
  if (entered) await ctx.reload();
}
