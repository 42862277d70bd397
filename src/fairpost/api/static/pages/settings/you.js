// Who you are, your password, and where you are signed in.

import { get, post, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, columns, confirmed, facts, moment, panel, since, table, tell } from "../../parts.js";

const fieldsOf = (person) => [
  { name: "address", label: "Your address", value: person.address, readonly: true, autocomplete: "username" }, // for those who have passwords kept
  { name: "old", label: "Your password now", type: "password", required: true, autocomplete: "current-password" },
  { name: "new", label: "The new one", type: "password", required: true, autocomplete: "new-password", hint: "Four words that nobody guesses are better than eight signs." },
];

export default {
  load: () => get("/v1/auth/sessions"),

  view(ctx) {
    const { session: person, data } = ctx;
    return [
      columns(
        panel("You", facts([["Name", person.name || null], ["Role", person.role], ["Workspace", person.workspace ?? "all: you run the service"], ["This session ends", moment(person.expires_at)]])),
        panel("Change your password", form("password", fieldsOf(person), { yes: "Change it", act: (entered, box) => change(ctx, entered, box) })),
      ),
      panel("Where you are signed in", table("Your sessions", ["since", "seen", "ends", "with", ""], data.map((session) => ({
        key: session.id,
        cells: [moment(session.created_at), since(session.seen_at), moment(session.expires_at), h("span", { title: session.agent }, browser(session.agent)), session.is_this ? badge("this one", "good") : button("End", () => end(ctx, session), { tone: "danger" })],
      })))),
    ];
  },
};

// "Firefox on Linux": who signs in knows no more of it.
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
  tell("Your password is changed.");
  box.reset();
  await ctx.reload();
}

async function end(ctx, session) {
  if (await confirmed("End this session?", { text: "Whoever uses it must sign in again.", yes: "End it", act: () => remove(`/v1/auth/sessions/${segment(session.id)}`), done: "The session is over." })) await ctx.reload();
}
