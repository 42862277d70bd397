// The dialog in which a campaign is drafted: what is sent, to whom, and by which accounts.

import { get } from "../ask.js";
import { h } from "../dom.js";
import { dialog } from "../parts.js";
import { counted } from "../words.js";

const MANY = 200; // of each are offered; who has more uses the API or a campaign file

// `draft`: what is live of the one to change; null: a new one. `write(name, body)` keeps it. Gives its name; null: cancelled.
export async function draftDialog(draft, write) {
  const [lists, templates, sequences, pools] = await Promise.all([
    get("/v1/lists", { limit: MANY }), get("/v1/templates", { limit: MANY }), get("/v1/sequences", { limit: MANY }), get("/v1/pools"),
  ]);
  const said = [...(draft ? [[`sequence ${draft.sequence}`, "As it is now"]] : []),
    ...templates.items.map((each) => [`template ${each.name}`, `Template ${each.name}: ${each.subject}`]),
    ...sequences.items.filter((each) => each.name !== draft?.sequence).map((each) => [`sequence ${each.name}`, `Sequence ${each.name}: ${counted(each.steps.length, "step")}`])];
  if (!said.length || !lists.items.length) return lacking(said.length === 0, lists.items.length === 0);
  let name = null;
  const entered = await dialog(draft ? `Change ${draft.id}` : "New campaign", {
    fields: [
      !draft && { name: "name", label: "Name", required: true, maxlength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", hint: "Letters, digits, dots, dashes and underscores." },
      { name: "what", label: "What is sent", options: said, value: said[0][0] },
      { name: "follow", label: "Follow-up", options: [["", "None"], ...templates.items.map((each) => [each.name, `Template ${each.name}: ${each.subject}`])], value: "", hint: "With the subject of the first e-mail, so that both are in one thread. A sequence has its own." },
      { name: "after", label: "The follow-up comes after", value: "3d", hint: "Like 3d, or 1d 12h." },
      ...lists.items.map((each) => ({ name: `list ${each.name}`, label: `List ${each.name}: ${counted(each.prospects, "person", "people")}`, type: "checkbox", value: draft ? draft.lists.includes(each.name) : lists.items.length === 1 })),
      { name: "route", label: "Sent by", options: routes(pools, draft), value: draft ? route(draft) : undefined },
      { name: "starts", label: "Not before", type: "datetime-local", value: draft?.starts_at ? local(draft.starts_at) : "", hint: "Empty: as soon as it is launched." },
      { name: "their_clock", label: "Keep to the hours of each recipient's own timezone", type: "checkbox", value: draft?.by_recipients_clock || false },
    ].filter(Boolean),
    yes: draft ? "Change" : "Make the draft",
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
    user: draft?.user ?? "",
    starts_at: given.starts ? new Date(given.starts).toISOString() : null,
    ...(draft ? { gap: draft.gap } : {}),
  };
  if (!told.lists.length) throw new Error("Choose at least one list.");
  if (kind === "sequence" && given.follow) throw new Error("A sequence has its own follow-ups. Choose a template, or no follow-up.");
  if (kind === "sequence") return { ...told, sequence: rest.join(" ") };
  return { ...told, steps: [{ template: rest.join(" ") }, ...(given.follow ? [{ template: given.follow, delay: given.after }] : [])] };
}

function routes(pools, draft) {
  const names = [...new Set([...pools.own.map((each) => each.name), ...pools.lent])];
  const found = [...names.map((name) => [`pool ${name}`, `Pool ${name}`]),
    ...pools.own.flatMap((pool) => pool.accounts.map((each) => [`account ${each.name}`, `Account ${each.name} alone`]))];
  if (draft && !found.some(([value]) => value === route(draft))) found.unshift([route(draft), route(draft)]);
  return found.length ? found : [["pool default", "Pool default"]];
}

const route = ({ pool, account }) => (account ? `account ${account}` : `pool ${pool}`);

// As an input of the kind datetime-local has it, on the clock of whoever looks.
function local(moment) {
  const date = new Date(moment);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

async function lacking(noWords, nobody) {
  const what = [noWords && "a template or a sequence", nobody && "a list of people"].filter(Boolean).join(" and ");
  await dialog("Something is missing", {
    text: [h("p", `A campaign needs ${what} first.`), h("p", "On the server: ", h("code", noWords ? "fairpost template add --help" : "fairpost prospects import --help"), ".")],
    yes: "Understood",
  });
  return null;
}
