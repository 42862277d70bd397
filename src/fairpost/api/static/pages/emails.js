// E-mails, newest first, with search and filters. The filters are in the URL.

import { get, SERVICE } from "../ask.js";
import { h } from "../dom.js";
import { button, empty, field, heading, link, moment, pager, state, table, to } from "../parts.js";
import { counted } from "../format.js";
import { STATES } from "../model.js";

const NAMES = ["campaign", "user", "account", "type", "tag"];
const TIMES = ["since", "until"];
const LOOKS_MAX = 5; // a page can be empty although pages with older e-mails follow

const UNDERSTOOD = {
  id: "Found by ID.",
  address: "Searched by recipient address.",
  key: "Searched by idempotency key.",
  campaign: "Searched by campaign.",
};

export default {
  title: "E-mails",

  async load(ctx) {
    const wanted = wantedBy(ctx.values);
    const [page, campaigns, accounts] = await Promise.all([look(ctx, wanted), names(ctx, "/v1/campaigns", "id"), names(ctx, "/v1/accounts", "name")]);
    return { ...page, wanted, campaigns, accounts };
  },

  view(ctx) {
    const { items, next, wanted, understood } = ctx.data;
    const more = async (cursor) => {
      const page = await look(ctx, wanted, cursor);
      ctx.data = { ...ctx.data, items: [...items, ...page.items], next: page.next };
      ctx.show();
    };
    return [
      heading("E-mails", button("Reload", ctx.reload)),
      form(ctx),
      isOfAll(ctx) && h("p.quiet", "This list includes all workspaces. To search by key, campaign, user, account, type or tag, choose a workspace at the top."),
      understood && items.length > 0 && h("p.quiet", { role: "status", "data-code": understood }, UNDERSTOOD[understood]),
      items.length ? list(ctx) : next ? nothingYet() : nothing(ctx),
      pager(next, more),
    ];
  },
};

const isOfAll = (ctx) => ctx.is("admin") && !ctx.workspace;

// ── search ──────────────────────────────────────────────────────────────────────────────────────────────

// The filters in the URL.
function wantedBy(values) {
  const wanted = { q: values.q?.trim(), state: STATES.includes(values.state) ? values.state : null };
  for (const name of NAMES) wanted[name] = values[name]?.trim();
  for (const name of TIMES) wanted[name] = Number.isNaN(Date.parse(values[name])) ? null : new Date(values[name]).toISOString();
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
}

async function look(ctx, wanted, cursor = null) {
  const page = isOfAll(ctx) ? pageOfAll : pageOfWorkspace;
  for (let looks = 1; ; looks += 1) {
    const found = await page(wanted, cursor);
    if (found.items.length || !found.next || looks === LOOKS_MAX) return found;
    cursor = found.next;
  }
}

async function pageOfWorkspace({ q, ...filters }, cursor) {
  if (!q) return get("/v1/emails", { ...filters, cursor });
  const found = await get("/v1/emails/find", { q, cursor });
  const name = { address: "to", key: "key", campaign: "campaign" }[found.understood];
  if (!name || !Object.keys(filters).length) return found;
  return { ...(await get("/v1/emails", { ...filters, [name]: q, cursor })), understood: found.understood };
}

async function pageOfAll({ q, state }, cursor) {
  if (!q) return get("/v1/admin/emails", { state, cursor });
  if (q.includes("@")) return { ...(await get("/v1/admin/emails", { to: q, state, cursor })), understood: "address" };
  const item = /^(em_[0-9a-z]{13}|[1-9]\d{0,18})$/.test(q) ? await get(`/v1/admin/emails/${q}`).catch(unlessMissing) : null;
  return { items: item ? [item] : [], next: null, understood: item ? "id" : "nothing" };
}

function unlessMissing(error) {
  if (![404, 422].includes(error.status)) throw error; // 422: the number is too large for an ID
  return null;
}

// These are suggestions: any other name can be typed.
const names = (ctx, path, name) => (isOfAll(ctx) ? [] : get(path, { limit: 200 }).then(({ items }) => items.map((each) => each[name])).catch(() => []));

// ── the form ────────────────────────────────────────────────────────────────────────────────────────────

function form(ctx) {
  const { wanted, campaigns, accounts } = ctx.data;
  const search = (event) => {
    event.preventDefault();
    const entered = Object.fromEntries(new FormData(event.currentTarget));
    ctx.go("/emails", wantedBy(entered));
  };
  const all = isOfAll(ctx);
  const more = [...NAMES, ...TIMES].filter((name) => wanted[name]).length;
  return h("form.filters.search", { role: "search", "aria-label": "E-mails", "data-key": `filters ${location.search}`, onsubmit: search },
    field({ name: "q", label: all ? "ID or address" : "ID, address, idempotency key or campaign", type: "search", value: wanted.q, maxlength: 500, class: "wide", autocomplete: "off" }),
    field({ name: "state", label: "State", value: wanted.state, options: [["", "All states"], ...STATES] }),
    h("div.actions", h("button.main", { type: "submit" }, "Search"), Object.keys(wanted).length > 0 && h("a.button", { href: to("/emails") }, "Clear")),
    !all && h("details.more", { open: more > 0 }, h("summary", more ? `More filters (${more})` : "More filters"),
      h("div.filters",
        field({ name: "campaign", label: "Campaign", value: wanted.campaign, maxlength: 500, list: "campaigns" }), choices("campaigns", campaigns),
        field({ name: "user", label: "User", value: wanted.user, maxlength: 500 }),
        field({ name: "account", label: "Account", value: wanted.account, maxlength: 500, list: "accounts" }), choices("accounts", accounts),
        field({ name: "type", label: "Type", value: wanted.type, maxlength: 150 }),
        field({ name: "tag", label: "Tag (name=value)", value: wanted.tag, maxlength: 251 }),
        field({ name: "since", label: "Accepted from", type: "datetime-local", value: onClock(wanted.since) }),
        field({ name: "until", label: "Accepted before", type: "datetime-local", value: onClock(wanted.until) }))));
}

const choices = (id, values) => h("datalist", { id }, values.map((value) => h("option", { value })));

// A time in the browser's time zone.
function onClock(iso) {
  if (!iso) return "";
  const date = new Date(iso);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────────────

function list(ctx) {
  const all = isOfAll(ctx);
  const { items } = ctx.data;
  const columns = [
    ["State", (email) => state(email.state)],
    ["To", recipients],
    ["Subject", (email) => [subject(email, all), email.reason && h("small.clip", email.reason)]],
    items.some(({ type }) => type) && ["Type", ({ type }) => type && name(type)],
    all && ["Workspace", workspace],
    items.some(({ user }) => user) && ["User", ({ user }) => (user ? name(user) : null)],
    items.some(({ account }) => account) && ["Account", ({ account }) => account && name(account)],
    ["Accepted", ({ created_at }) => moment(created_at)],
  ].filter(Boolean);
  return table("E-mails, newest first", columns.map(([name]) => name), items.map((email) => ({ key: email.id, cells: columns.map(([, cell]) => cell(email)) })));
}

const name = (text) => h("span.name", text);
const workspace = ({ workspace: name }) => (name === SERVICE ? "Fairpost itself" : h("a.name", { href: to("/emails", { workspace: name }) }, name));

function recipients({ recipients: all }) {
  return [all[0]?.address, all.length > 1 && h("small", ` and ${counted(all.length - 1, "other")}`)];
}

function subject(email, all) {
  const text = email.subject === null ? (email.workspace === "fairpost" ? "(sent by Fairpost itself)" : "(content no longer stored)") : (email.filled_subject ?? email.subject) || "(no subject)";
  if (all && email.workspace === SERVICE) return text;
  return h("a.clip", { href: to(`/emails/${email.id}`, all ? { workspace: email.workspace } : {}) }, text);
}

const nothingYet = () => empty("No matches among recent e-mails.", h("p", "Choose “Show more” to search further back."));

function nothing(ctx) {
  const { wanted } = ctx.data;
  const back = h("p", link("/emails", "Show all e-mails"));
  if (wanted.q) {
    const kinds = isOfAll(ctx) ? "Search for an ID or a full address" : "Search for an ID, a full address, a full idempotency key or a campaign in this workspace";
    return empty(`No results for “${wanted.q}”.`, h("p", `${kinds}${Object.keys(wanted).length > 1 ? ", or remove a filter" : ""}.`), back);
  }
  if (Object.keys(wanted).length) return empty("No matching e-mails.", h("p", "Remove a filter, or clear all filters."), back);
  return empty("No e-mails yet.", h("p", "Send your first e-mail: ", h("code", "fairpost email send --to you@example.com --subject Hello --text Hi")),
    h("p", "or through the ", h("a", { href: "/docs" }, "HTTP API"), ": ", h("code", "POST /v1/emails")));
}
