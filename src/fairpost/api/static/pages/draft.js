// The dialog for a campaign draft: its content, recipients and accounts.

import { get } from "../ask.js";
import { h } from "../dom.js";
import { dialog, link } from "../parts.js";
import { counted, readable } from "../format.js";
import { headerBody, headerInputs } from "./header-fields.js";

const MANY = 200; // maximum number of options of each kind; for others, use the API or a campaign file

// `draft` is the campaign to edit, or null for a new one. `write(name, body)` saves it. Resolves to its name, or to null if cancelled.
export async function draftDialog(draft, write) {
  const [lists, templates, sequences, pools] = await Promise.all([
    get("/v1/lists", { limit: MANY }), get("/v1/templates", { limit: MANY }), get("/v1/sequences", { limit: MANY }), get("/v1/pools"),
  ]);
  const said = [...(draft ? [[`sequence ${draft.sequence}`, "Current content"]] : []),
    ...templates.items.map((each) => [`template ${each.name}`, `Template ${each.name}: ${readable(each.subject)}`]),
    ...sequences.items.filter((each) => each.name !== draft?.sequence).map((each) => [`sequence ${each.name}`, `Sequence ${each.name}: ${counted(each.steps.length, "step")}`])];
  if (!said.length || !lists.items.length) return lacking(said.length === 0, lists.items.length === 0);
  let name = null;
  const entered = await dialog(draft ? `Edit ${draft.id}` : "New campaign", {
    fields: [
      !draft && { name: "name", label: "Name", required: true, maxlength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", hint: "Letters, digits, dots, dashes and underscores." },
      { name: "what", label: "Content", options: said, value: said[0][0] },
      { name: "follow", label: "Follow-up", options: [["", "None"], ...templates.items.map((each) => [each.name, `Template ${each.name}: ${readable(each.subject)}`])], value: "", hint: "The follow-up uses the first e-mail's subject, so both stay in one thread. Sequences have their own follow-ups." },
      { name: "after", label: "Follow-up delay", value: "3d", hint: "For example 3d or 1d 12h." },
      ...lists.items.map((each) => ({ name: `list ${each.name}`, label: `List ${each.name}: ${counted(each.prospects, "prospect")}`, type: "checkbox", value: draft ? draft.lists.includes(each.name) : lists.items.length === 1 })),
      { name: "route", label: "Send through", options: routes(pools, draft), value: draft ? route(draft) : undefined },
      { name: "starts", label: "Not before", type: "datetime-local", value: draft?.starts_at ? local(draft.starts_at) : "", hint: "Leave empty to start at launch." },
      { name: "their_clock", label: "Apply the sending window in each recipient's time zone", type: "checkbox", value: draft?.by_recipients_clock || false },
      ...headerInputs(draft),
    ].filter(Boolean),
    yes: draft ? "Save" : "Create draft",
    isGuarded: true,
    act: (given) => write((name = draft?.id ?? given.name), body(given, draft)),
  });
  return entered && name;
}

function body(given, draft) {
  const [kind, ...rest] = given.what.split(" ");
  const [by, ...named] = given.route.split(" ");
  const told = {
    lists: Object.keys(given).filter((key) => key.startsWith("list ") && given[key]).map((key) => key.slice(5)),
    [by]: named.join(" "),
    by_recipients_clock: given.their_clock,
    ...headerBody(given),
    starts_at: given.starts ? new Date(given.starts).toISOString() : null,
    ...(draft ? kept(draft) : {}),
  };
  if (!told.lists.length) throw new Error("Choose at least one list.");
  if (kind === "sequence" && given.follow) throw new Error("A sequence has its own follow-ups. Choose a template, or no follow-up.");
  if (kind === "sequence") return { ...told, sequence: rest.join(" ") };
  return { ...told, steps: [{ template: rest.join(" ") }, ...(given.follow ? [{ template: given.follow, delay: given.after }] : [])] };
}

// Settings that the dialog does not show are not changed.
const kept = ({ gap, user, footer, type, tags, metadata }) => ({ gap, user, footer, type, tags, metadata });

function routes(pools, draft) {
  const names = [...new Set([...pools.own.map((each) => each.name), ...pools.lent])];
  const found = [...names.map((name) => [`pool ${name}`, `Pool ${name}`]),
    ...pools.own.flatMap((pool) => pool.accounts.map((each) => [`account ${each.name}`, `Account ${each.name} only`]))];
  if (draft && !found.some(([value]) => value === route(draft))) found.unshift([route(draft), route(draft)]);
  return found.length ? found : [["pool default", "Pool default"]];
}

const route = ({ pool, account }) => (account ? `account ${account}` : `pool ${pool}`);

// A time formatted for a datetime-local input, in the browser's time zone.
function local(moment) {
  const date = new Date(moment);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

async function lacking(noContent, isEmpty) {
  const what = [noContent && "a template or a sequence", isEmpty && "a list of prospects"].filter(Boolean).join(" and ");
  await dialog("New campaign", {
    text: [h("p", `To create a campaign, you first need ${what}.`), noContent ? h("p", link("/settings/templates", "Create a template")) : h("p", "Import a list on the server: ", h("code", "fairpost prospects import LIST FILE"))],
    yes: "OK",
  });
  return null;
}
