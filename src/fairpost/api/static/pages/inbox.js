// The development inbox: a live list with one e-mail beside it. Untrusted content is shown as text, and HTML only in a sandboxed frame.

import { get, remove } from "../ask.js";
import { h } from "../dom.js";
import { button, confirmed, empty, heading, moment, pager, tell, to, trouble } from "../parts.js";
import { bytes, counted, number, whole } from "../format.js";
import { mailParts, partsOf } from "./inbox-mail.js";
import { forget, isRead, markAllRead, markRead } from "./inbox-read.js";

const COUNTED_MAX = 10000; // the service does not count beyond this

export default {
  title: "Inbox",
  isOne: true,
  topic: (ctx) => (ctx.is("admin") && ctx.session.has_inbox ? ["inbox"] : null),
  load,
  view(ctx) {
    if (!ctx.is("admin")) return empty("The inbox contains e-mails from all workspaces. Only admins can open it.");
    if (!ctx.session.has_inbox) return empty("The development inbox is not installed. To install it, run: pip install 'fairpost[local]'");
    opened = ctx;
    if (!ctx.live && !ctx.state.found) return [heading("Inbox"), h("p.quiet", "Loading …")];
    if (ctx.live) forget(Number(ctx.live.newest));
    const items = listed(ctx);
    return [
      heading("Inbox", h("p.quiet.said", { role: "status" }, said(ctx, items)),
        items.some((item) => !isRead(item.id)) && button("Mark all as read", () => { markAllRead(Number(ctx.live?.newest ?? items[0].id)); ctx.show(); }),
        ctx.live?.count ? button("Delete all", () => deleteAll(ctx), { tone: "danger" }) : null),
      h("div.inbox", { "data-key": "inbox", class: ctx.params.id ? "has-mail" : null }, list(ctx, items), letter(ctx, items)),
    ];
  },
};

let opened = null; // the context of the open page, for keyboard shortcuts

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────

async function load(ctx) {
  if (!ctx.is("admin") || !ctx.session.has_inbox) return;
  const { state, params: { id, part }, values: { q = "" } } = ctx;
  if (id && !state.id) state.scrolled = scrollY;
  if (id && state.mail) ctx.show(); // the list already marks it
  await Promise.all([search(ctx, q), open(ctx, id, part)]);
  requestAnimationFrame(() => settle(ctx));
}

async function search(ctx, q, isAgain = false) {
  const { state, live } = ctx;
  if (!q) state.found = null;
  else if (isAgain || state.found?.q !== q) state.found = { q, newest: live?.newest, ...(await ask(q)) };
}

// Parses a search: words that the e-mail must contain, and `to:` with an address.
function ask(q, more = {}) {
  const words = q.trim().split(/\s+/);
  const [address] = words.filter((word) => /^to:./i.test(word)).map((word) => word.slice(3));
  return get("/v1/inbox", { q: words.filter((word) => !/^to:/i.test(word)).join(" "), to: address, ...more });
}

async function open(ctx, id, part) {
  const { state } = ctx;
  if (!id) return void (state.mail = null);
  if (state.mail?.id !== id || state.mail.error) {
    const mail = await get(`/v1/inbox/${id}`).catch((error) => ({ id, error }));
    if (ctx.params.id !== id) return;
    state.mail = mail;
    if (!mail.error) markRead(Number(id));
  }
  const { mail } = state;
  if (part === "source" && !mail.error && mail.source === undefined) mail.source = await get(`/v1/inbox/${id}/source`, {}, { raw: true });
}

// Sets scroll position and focus after moving. On a phone, either the list or the e-mail is visible.
function settle(ctx) {
  const { state, params: { id } } = ctx;
  if (state.id === id) return;
  const before = state.id;
  state.id = id;
  const entry = document.querySelector(`[data-key="mail ${id || before}"] a`);
  const isBeside = entry?.checkVisibility();
  if (id && !isBeside) {
    scrollTo(0, 0);
    document.getElementById("mail-title")?.focus({ preventScroll: true });
  } else if (isBeside) {
    if (!id) scrollTo(0, state.scrolled || 0);
    if (document.activeElement?.closest(".letters") || document.activeElement === document.body || !id) entry.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
  }
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────────────

// Live items first; older pages that were loaded stay below.
function listed({ state, live }) {
  const gone = (state.gone ||= new Set());
  if (state.found) return state.found.items.filter((item) => !gone.has(item.id));
  const items = live.items;
  const oldest = items.length ? Number(items.at(-1).id) : 0;
  state.shown = state.isPaged && live.next ? [...items, ...state.shown.filter((item) => Number(item.id) < oldest)] : items;
  return state.shown.filter((item) => !gone.has(item.id));
}

function said({ state, live }, items) {
  if (state.found) return `${counted(items.length, "e-mail")}${state.found.next ? " and more" : ""} found`;
  const unread = items.filter((item) => !isRead(item.id)).length;
  const all = live.count > COUNTED_MAX ? `more than ${number(COUNTED_MAX)} e-mails` : counted(live.count, "e-mail");
  const isPart = state.isPaged ? state.next : live.next; // older e-mails are not loaded
  return unread ? `${all}, ${isPart ? "at least " : ""}${number(unread)} unread` : all;
}

function list(ctx, items) {
  const { state, live, values } = ctx;
  const next = state.found ? state.found.next : state.isPaged ? state.next : live.next;
  return h("section.inbox-list.panel", { "data-key": "list", "aria-label": "E-mails" },
    h("form", { role: "search", onsubmit: (event) => { event.preventDefault(); find(ctx, event.target.elements.q.value); } },
      h("input", { type: "search", name: "q", id: "inbox-search", value: values.q || "", placeholder: "Search text or to:address", "aria-label": "Search, or enter to:name@example.com", maxlength: 500, autocomplete: "off",
        oninput: (event) => { if (!event.target.value && values.q) find(ctx, ""); } })),
    state.found && live && Number(live.newest) > Number(state.found.newest ?? live.newest) && h("p", button("New e-mails have arrived. Search again", async () => { await search(ctx, values.q, true); ctx.show(); })),
    items.length ? h("ul.letters", { "data-key": "letters" }, items.map((item) => entry(ctx, item))) : state.found ? empty("No results.", h("p", "No e-mail contains all of these words in its subject, addresses or text.")) : h("p.quiet", "No e-mails."),
    pager(next, (cursor) => more(ctx, cursor)));
}

function entry(ctx, { id, from, subject, recipients, recipients_count: count = recipients.length, received_at: received, attachments }) {
  const isNew = !isRead(id);
  return h("li", { "data-key": `mail ${id}`, class: isNew ? "unread" : null },
    h("a", { href: path(ctx, id), "aria-current": ctx.params.id === id ? "true" : null },
      h("span.from", { title: from }, h("bdi", called(from) || "(no sender)")), h("small", attachments ? `${counted(attachments, "file")} · ` : null, moment(received)),
      h("span.subject", isNew && h("span.hidden", "unread: "), h("bdi", subject || "(no subject)")),
      h("small.to", "to ", h("bdi", recipients[0] || "(no recipient)"), count > 1 ? ` and ${number(count - 1)} more` : null)));
}

const called = (from) => from.replace(/<[^<>]*>\s*$/, "").trim() || from; // the name, or the address if there is no name
const path = ({ params, values }, id, part = params.part) => to(part && id ? `/inbox/${id}/${part}` : id ? `/inbox/${id}` : "/inbox", { q: values.q });
const find = (ctx, q) => ctx.go("/inbox", { q: q.trim() });

async function more(ctx, cursor) {
  const { state } = ctx;
  if (state.found) {
    const page = await ask(state.found.q, { cursor });
    state.found = { ...state.found, items: [...state.found.items, ...page.items], next: page.next };
  } else {
    const page = await get("/v1/inbox", { cursor });
    Object.assign(state, { isPaged: true, shown: [...state.shown, ...page.items], next: page.next });
  }
  ctx.show();
}

// ── one e-mail ──────────────────────────────────────────────────────────────────────────────────────────

function letter(ctx, items) {
  const { state: { mail }, params: { id } } = ctx;
  if (!id) return h("section.letter", { "data-key": "none", "aria-label": "No e-mail selected" }, items.length ? empty("Select an e-mail.", keys()) : welcome(ctx));
  if (!mail) return h("section.letter.panel", { "data-key": "opening" }, h("p.quiet", "Loading …"));
  const back = h("a.button.back", { href: to("/inbox", { q: ctx.values.q }) }, "All e-mails");
  if (mail.error) return h("section.letter", { "data-key": `letter ${mail.id}` }, h("p", back), trouble(mail.error, mail.error.status !== 404 && ctx.reload));
  return h("section.letter.panel", { "data-key": `letter ${mail.id}`, "aria-label": "E-mail", "aria-busy": mail.id === id ? null : "true" },
    h("div.actions", back, step(ctx, items, -1, "Previous"), step(ctx, items, 1, "Next"), button("Delete", () => deleteOne(ctx, mail.id), { tone: "danger" })),
    h("h2", { id: "mail-title", tabindex: -1 }, h("bdi", mail.subject || "(no subject)")),
    envelope(mail),
    mail.is_cut && h("p.notice.wait", "This e-mail is too large to display in full. To see the whole e-mail, open its source."),
    h("nav.tabs", { "aria-label": "Parts of the e-mail" }, partsOf(mail).map(([part, name]) => h("a", { href: path(ctx, mail.id, part), "aria-current": part === partOf(ctx) ? "page" : null }, name))),
    h("div", { "data-key": `part ${partOf(ctx)}` }, mailParts[partOf(ctx)](mail, ctx)));
}

const partOf = ({ params, state: { mail } }) => (params.part in mailParts ? params.part : mail.html === null ? "text" : "html");
const keys = () => h("p", h("kbd", "j"), " and ", h("kbd", "k"), ": next and previous · ", h("kbd", "/"), ": search · ", h("kbd", "Delete"), ": delete");
const welcome = ({ state }) => (state.found ? null : h("div.empty", h("p", "No e-mails yet. E-mails sent to this inbox are kept here instead of being delivered."),
  h("p", h("code", "fairpost up"), " starts the inbox on ", h("code", "smtp://127.0.0.1:1025"), ". To start only the inbox, run:"), h("p", h("code", "fairpost inbox serve"))));

function step(ctx, items, by, name) {
  const item = neighbour(ctx, items, by);
  return h("a.button", { href: item ? path(ctx, item.id) : null, "aria-disabled": item ? null : "true", role: item ? null : "link" }, name);
}

function neighbour({ params: { id } }, items, by) {
  const here = items.findIndex((item) => item.id === id);
  if (here < 0) return id ? items.find((item) => Number(item.id) < Number(id)) || null : items[0];
  return items[here + by] || null;
}

function envelope(mail) {
  const some = mail.recipients.slice(0, 20);
  const how = [mail.tls, mail.auth_user && `authenticated as ${mail.auth_user}`, `from ${mail.peer}`].filter(Boolean).join(" · ");
  const row = (name, ...value) => [h("dt", name), h("dd", value)];
  return h("dl.facts",
    row("From", h("bdi", mail.from || "–"), mail.from.includes(mail.sender) && mail.sender ? null : h("small", " envelope sender ", h("bdi", mail.sender || "<>"))),
    row("To", h("bdi", some.join(", ")), mail.recipients.length > some.length ? ` and ${number(mail.recipients.length - some.length)} more` : null),
    row("Received", whole(mail.received_at), h("small", ` · ${bytes(mail.size)} · ${how}`)));
}

// ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

async function deleteOne(ctx, id) {
  const items = listed(ctx);
  const next = neighbour(ctx, items, 1) || neighbour(ctx, items, -1);
  const isDone = await confirmed("Delete this e-mail?", { text: "This deletes the e-mail for all users.", yes: "Delete", act: () => remove(`/v1/inbox/${id}`), done: "Deleted." });
  if (!isDone) return;
  ctx.state.gone.add(id);
  await ctx.go(next ? `/inbox/${next.id}${ctx.params.part ? `/${ctx.params.part}` : ""}` : "/inbox", { q: ctx.values.q });
}

async function deleteAll(ctx) {
  let removed = 0;
  const act = async () => ({ removed } = await remove("/v1/inbox?all=true"));
  if (!(await confirmed("Delete all e-mails?", { text: `This deletes all ${number(ctx.live.count)} e-mails for all users, including those that are not shown.`, yes: "Delete all", act }))) return;
  tell(`${counted(removed, "e-mail")} deleted.`);
  for (const item of listed(ctx)) ctx.state.gone.add(item.id);
  document.getElementById("inbox-search").value = "";
  await ctx.go("/inbox");
}

// Arrow keys move only within the list. Elsewhere, they scroll the page.
document.addEventListener("keydown", (event) => {
  const isHere = /^\/inbox(\/|$)/.test(location.pathname) && opened && (opened.live || opened.state.found);
  if (!isHere || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("input, textarea, select")) return;
  const by = { j: 1, k: -1, ...(event.target.closest?.(".letters") ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[event.key];
  if (by) {
    event.preventDefault();
    const item = neighbour(opened, listed(opened), by);
    if (item) opened.go(opened.params.part ? `/inbox/${item.id}/${opened.params.part}` : `/inbox/${item.id}`, { q: opened.values.q });
  } else if (event.key === "/") {
    event.preventDefault();
    const box = document.getElementById("inbox-search");
    box?.focus();
    box?.select();
  } else if (event.key === "Delete" && opened.params.id && !opened.state.mail?.error) {
    deleteOne(opened, opened.params.id);
  }
});
