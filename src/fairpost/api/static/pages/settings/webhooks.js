// Webhooks: endpoints to which events are posted. A secret is shown only once.

import { ask, get, post, remove, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, confirmed, dialog, empty, facts, moment, pager, panel, since, table, tell } from "../../parts.js";
import { number } from "../../format.js";
import { EVENTS } from "../../model.js";
import { actions, copied } from "./lists.js";

const PATH = "/v1/webhooks";
const TONES = { active: "good", failing: "bad", disabled: "bad", paused: "wait" };

const fields = ({ url = "", description = "", types = [], tags = {} } = {}) => [
  { name: "url", label: "URL", type: "url", required: true, maxlength: 2000, value: url, placeholder: "https://example.com/fairpost", autocomplete: "off" },
  { name: "description", label: "Description", maxlength: 500, value: description },
  { name: "tags", label: "Tags", value: Object.entries(tags).map((tag) => tag.join("=")).join(", "), placeholder: "order=17", hint: "Deliver only events for e-mails that have all of these tags. Leave empty to include all e-mails." },
  { name: "types", label: "Event types", type: "choices", options: EVENTS.map((type) => [type, type]), value: types, hint: "If you choose no types, events of all types are delivered." },
];
const given = ({ tags, ...rest }) => ({ ...rest, tags: Object.fromEntries(tags.split(",").filter((tag) => tag.trim()).map((tag) => split(tag.trim()))) });

function split(tag) {
  const [name, ...value] = tag.split("=");
  return [name, value.join("=")];
}

export default {
  load: () => get(PATH),

  view(ctx) {
    const mayChange = ctx.is("manager", "admin");
    return [
      ctx.state.made && panel("Secret", h("p", `Copy the secret for ${ctx.state.made.url} now. You will not be able to see the secret again. Your endpoint uses the secret to verify signatures.`), copied("Secret", ctx.state.made.secret)),
      mayChange && panel("Add a webhook", form("webhook", fields(), { yes: "Add", act: (entered, box) => add(ctx, entered, box) })),
      ctx.data.length ? ctx.data.map((webhook) => one(ctx, webhook, mayChange)) : empty("No webhooks yet. Add a webhook to receive events at your own endpoint."),
    ];
  },
};

function one(ctx, webhook, mayChange) {
  const { id, url, description, types, tags, state, delivered_at, failing_since, next_at, reason } = webhook;
  const tagged = Object.entries(tags).map((tag) => tag.join("=")).join(", ");
  const isStopped = state === "paused" || state === "disabled";
  return panel(url,
    h("p", badge(state, TONES[state]), " ", delivered_at ? ["last delivered ", since(delivered_at)] : "nothing delivered yet"),
    facts([
      description && ["Description", description],
      ["Event types", types.join(", ") || "all"],
      tagged && ["Tags", tagged],
      reason && ["Last failure", reason.message],
      failing_since && ["Failing since", moment(failing_since)],
      next_at && !isStopped && ["Next attempt", moment(next_at)],
    ]),
    mayChange && actions(
      button("Send test", () => test(ctx, webhook), { label: `Send a test event to ${url}` }),
      isStopped || state === "failing" ? button("Resume", () => act(ctx, id, "resume", "Webhook resumed."), { tone: isStopped ? "main" : "", label: `Resume ${url}` }) : null,
      isStopped ? null : button("Pause", () => act(ctx, id, "pause", "Webhook paused. The webhook's events will wait until you resume it."), { label: `Pause ${url}` }),
      button("Edit", () => toggle(ctx, "edited", id), { label: `Edit ${url}` }),
      button("Replay", () => replay(ctx, webhook), { label: `Replay events to ${url}` }),
      button("New secret", () => rotate(ctx, webhook), { label: `New secret for ${url}` }),
      button("Remove", () => removed(ctx, webhook), { tone: "danger", label: `Remove ${url}` }),
    ),
    ctx.state.edited === id && form(`webhook ${id}`, fields(webhook), { yes: "Save", act: (entered) => edit(ctx, id, entered) }),
    h("p", button(ctx.state.logged === id ? "Hide log" : "Show log", () => log(ctx, id), { label: `Log for ${url}` })),
    ctx.state.logged === id && requests(ctx, webhook));
}

function requests(ctx, { id, url }) {
  const { items, next } = ctx.state.log;
  const rows = items.map((entry) => ({
    key: entry.id,
    cells: [moment(entry.at), entry.type, number(entry.attempt), entry.status ?? "–", `${number(entry.duration_ms)} ms`, entry.reason ? badge(entry.reason.message, "bad") : badge("delivered", "good"),
      button("Details", () => details(id, entry), { label: `Details of ${entry.message_id}` })],
  }));
  return [
    table(`Log for ${url}`, ["At", "Event", ">Attempt", ">Status", ">Time", "Result", ""], rows, "No requests in the last seven days."),
    pager(next, async (cursor) => {
      const more = await get(`${PATH}/${segment(id)}/deliveries`, { cursor });
      ctx.state.log = { items: [...items, ...more.items], next: more.next };
      ctx.show();
    }),
  ];
}

async function details(id, entry) {
  const found = await get(`${PATH}/${segment(id)}/deliveries/${segment(entry.id)}`);
  await dialog(`Request ${entry.message_id}`, {
    text: h("div", h("h3", "Request"), h("pre", found.request ?? "The event is no longer stored."), h("h3", "Response"), h("pre", `${found.status ?? "none"} ${found.answer}`)),
    yes: "Close",
  });
}

async function add(ctx, entered, box) {
  ctx.state.made = await post(PATH, given(entered));
  box.reset();
  await ctx.reload();
  document.querySelector(".copied input")?.focus();
}

async function edit(ctx, id, entered) {
  await ask(`${PATH}/${segment(id)}`, { method: "PATCH", body: given(entered) });
  ctx.state.edited = null;
  tell("Webhook saved.");
  await ctx.reload();
}

async function toggle(ctx, name, id) {
  ctx.state[name] = ctx.state[name] === id ? null : id;
  ctx.show();
}

async function log(ctx, id) {
  if (ctx.state.logged !== id) ctx.state.log = await get(`${PATH}/${segment(id)}/deliveries`);
  await toggle(ctx, "logged", id);
}

async function act(ctx, id, verb, done) {
  await post(`${PATH}/${segment(id)}/${verb}`);
  tell(done);
  await ctx.reload();
}

async function test(ctx, { id }) {
  const { is_delivered, status, duration_ms, reason } = await post(`${PATH}/${segment(id)}/test`);
  tell(is_delivered ? `Delivered: ${status} in ${number(duration_ms)} ms.` : `Not delivered: ${reason.message}.`, is_delivered ? "good" : "bad");
  if (ctx.state.logged === id) ctx.state.log = await get(`${PATH}/${segment(id)}/deliveries`);
  await ctx.reload();
}

async function rotate(ctx, { id, url }) {
  const text = "For one day, requests will be signed with both secrets. After that, only the new secret will be valid.";
  const done = await confirmed(`New secret for ${url}?`, { text, yes: "New secret", tone: "main", act: async () => { ctx.state.made = await post(`${PATH}/${segment(id)}/rotate`, {}); } });
  if (done) await ctx.reload();
}

async function replay(ctx, { id, url }) {
  const entered = await dialog(`Replay events to ${url}`, {
    text: "All events since the time that you enter will be posted again with the same IDs.",
    fields: [{ name: "since", label: "Since", type: "datetime-local", required: true }],
    yes: "Replay",
    act: ({ since: start }) => post(`${PATH}/${segment(id)}/replay`, { since: new Date(start).toISOString() }),
  });
  if (entered) tell("The events will be posted again.");
}

async function removed(ctx, { id, url }) {
  const text = "This webhook will no longer receive events, and its log will be deleted.";
  if (await confirmed(`Remove ${url}?`, { text, yes: "Remove", act: () => remove(`${PATH}/${segment(id)}`), done: "Webhook removed." })) await ctx.reload();
}
