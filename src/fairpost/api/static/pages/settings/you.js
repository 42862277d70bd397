// Your profile, password and sessions.

import { get, post, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, columns, confirmed, facts, moment, panel, since, table, tell } from "../../parts.js";

const fieldsOf = (person) => [
  { name: "address", label: "E-mail address", value: person.address, readonly: true, autocomplete: "username" }, // read by password managers
  { name: "old", label: "Current password", type: "password", required: true, autocomplete: "current-password" },
  { name: "new", label: "New password", type: "password", required: true, autocomplete: "new-password", hint: "At least 12 characters. Several random words are better than a short, complex password." },
];

export default {
  load: () => get("/v1/auth/sessions"),

  view(ctx) {
    const { session: person, data } = ctx;
    return [
      columns(
        panel("Profile", facts([["Name", person.name || null], ["Role", person.role], ["Workspace", person.workspace ?? "all (admin)"], ["Session ends", moment(person.expires_at)]])),
        panel("Change password", form("password", fieldsOf(person), { yes: "Change password", act: (entered, box) => change(ctx, entered, box) })),
      ),
      panel("Sessions", table("Your sessions", ["Signed in", "Last active", "Ends", "Browser", ""], data.map((session) => ({
        key: session.id,
        cells: [moment(session.created_at), since(session.seen_at), moment(session.expires_at), h("span", { title: session.agent }, browser(session.agent)), session.is_this ? badge("this session", "good") : button("End", () => end(ctx, session), { tone: "danger" })],
      })))),
    ];
  },
};

// A user agent as text, for example "Firefox on Linux".
function browser(agent) {
  const name = /Edg|OPR|Firefox|Chrome|Safari/.exec(agent)?.[0];
  const system = /Windows|Android|iPhone|iPad|Mac OS X|Linux/.exec(agent)?.[0];
  if (!name) return agent || "–";
  return `${{ Edg: "Edge", OPR: "Opera" }[name] ?? name}${system ? ` on ${system}` : ""}`;
}

async function change(ctx, { old, new: fresh }, box) {
  try {
    await post("/v1/auth/password", { old, new: fresh });
  } catch (error) {
    const field = { wrong_credentials: "old", invalid: "new" }[error.code];
    if (field && !Array.isArray(error.details)) error.details = [{ field, message: error.message }];
    throw error;
  }
  tell("Password changed.");
  box.reset();
  await ctx.reload();
}

async function end(ctx, session) {
  if (await confirmed("End this session?", { text: "To continue in that browser, you will have to sign in again.", yes: "End session", act: () => remove(`/v1/auth/sessions/${segment(session.id)}`), done: "Session ended." })) await ctx.reload();
}
