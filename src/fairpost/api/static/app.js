// Routing, the signed-in session, and live updates.

import { ask, chosen, get, post, query, remember } from "./ask.js";
import { h, patch } from "./dom.js";
import { Live } from "./live.js";
import { button, dialog, empty, mayLose, to, trouble } from "./parts.js";
import { forget, isUnsaved } from "./unsaved.js";

// A page: { title, topic?(ctx) → [name, values], load?(ctx) → data, view(ctx) → element, isOne? }. With isOne, all paths of the page count as one page, which stays open
// with its state and live data while the user moves between them.
// ctx has: params, values (the query), session, data (the result of load), live (the latest state of its topic), workspace,
// reload() → load and render again, show() → render again, go(path, values, {replace}), is(role…), state: the page's own object, kept while it is open.
const PAGES = [
  [/^\/$/, () => import("./pages/now.js")],
  [/^\/accounts\/?$/, () => import("./pages/accounts.js")],
  [/^\/accounts\/(?<name>.+)$/, () => import("./pages/account.js")],
  [/^\/fairness\/?$/, () => import("./pages/fairness.js")],
  [/^\/campaigns\/?$/, () => import("./pages/campaigns.js")],
  [/^\/campaigns\/(?<name>[^/]+)(?:\/(?<part>recipients|preview))?$/, () => import("./pages/campaign.js")],
  [/^\/emails\/?$/, () => import("./pages/emails.js")],
  [/^\/emails\/(?<id>em_[0-9a-z]{13}|\d{1,19})$/, () => import("./pages/email.js")],
  [/^\/inbox(\/(?<id>\d+)(\/(?<part>[a-z]+))?)?\/?$/, () => import("./pages/inbox.js")],
  [/^\/settings(\/(?<part>[^/]+)(\/(?<name>.+))?)?\/?$/, () => import("./pages/settings.js")],
];

const NAV = [
  ["/", "Now"],
  ["/accounts", "Accounts"],
  ["/fairness", "Fairness"],
  ["/campaigns", "Campaigns"],
  ["/emails", "E-mails"],
  ["/inbox", "Inbox", "admin"],
  ["/settings", "Settings"],
];

const NAMES_MAX = 200; // workspaces listed at once

const page = document.getElementById("page");
const live = new Live(showLive);
let session = null;
let open = null; // the context of the current page
let address = null; // its path and query

function found(path) {
  for (const [pattern, module] of PAGES) {
    const match = pattern.exec(path);
    if (match) return { module, params: Object.fromEntries(Object.entries(match.groups || {}).map(([k, v]) => [k, v && decoded(v)])) };
  }
  return null;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an invalid % in a typed URL: no page has such a name
  }
}

// `y`: the scroll position to restore.
async function route(y = 0) {
  address = location.pathname + location.search;
  const here = found(location.pathname);
  if (here && open?.page?.isOne && open.module === here.module && open.workspace === (session.workspace || chosen())) {
    open.params = here.params;
    open.values = Object.fromEntries(new URLSearchParams(location.search));
    return load(open);
  }
  const ctx = {
    module: here?.module,
    params: here?.params || {},
    values: Object.fromEntries(new URLSearchParams(location.search)),
    session,
    workspace: session.workspace || chosen(),
    data: null,
    live: null,
    state: {},
    is: (...roles) => roles.includes(session.role),
    go,
    show: () => show(ctx),
    reload: () => load(ctx),
  };
  open = ctx;
  for (const each of document.querySelectorAll("dialog")) each.abandon?.(); // these belong to the previous page
  live.follow(null, {}, null);
  showNav();
  if (here === null) return replace(ctx, empty("Page not found.", h("a", { href: to("/") }, "Home")));
  try {
    ctx.page = (await here.module()).default;
  } catch {
    const again = async () => { await ask("/v1/auth/session"); location.reload(); }; // set only when the server has responded
    return replace(ctx, trouble(new Error("Could not load this page. Check your connection and try again."), again));
  }
  if (open !== ctx) return;
  document.title = `${ctx.page.title} · Fairpost`;
  await load(ctx);
  if (open !== ctx) return;
  scrollTo(0, y);
  const topic = ctx.page.topic?.(ctx);
  const hear = (data) => {
    const isFirst = !ctx.live;
    Object.assign(ctx, { live: data, error: null });
    show(ctx);
    if (isFirst && y) scrollTo(0, y);
  };
  const refused = (error) => {
    if (ctx.live) return; // the page stays open, marked as out of date
    ctx.error = error;
    show(ctx);
  };
  if (topic) live.follow(topic[0], topic[1] || {}, hear, refused);
}

async function load(ctx) {
  const asked = (ctx.asked = {});
  let data = null, fault = null;
  try {
    if (ctx.page.load) data = await ctx.page.load(ctx);
  } catch (error) {
    fault = error;
  }
  if (asked !== ctx.asked) return; // a newer request is in progress
  [ctx.data, ctx.error] = [data, fault];
  show(ctx);
}

function show(ctx) {
  if (open !== ctx) return;
  try {
    replace(ctx, ctx.error ? trouble(ctx.error, ctx.reload) : ctx.page.view(ctx));
  } catch (error) {
    console.error(error);
    replace(ctx, trouble(new Error("Could not display this page. Reload it."), () => location.reload()));
  }
}

// Only changed nodes are touched, so a live update keeps selections and open dialogs.
function replace(ctx, content) {
  if (open !== ctx) return;
  const fresh = h("div", { "data-key": `page ${ctx.page?.isOne ? ctx.page.title : location.pathname} ${ctx.workspace}` }, content);
  if (page.firstElementChild && page.childNodes.length === 1) patch(page.firstElementChild, fresh);
  else page.replaceChildren(fresh);
}

async function go(path, values = {}, { replace: isInstead = false } = {}) {
  if (!(await mayLeave())) return;
  if (isInstead) history.replaceState(history.state, "", to(path, values));
  else push(to(path, values));
  await arrive();
}

// History entries are numbered, so a cancelled "back" can return to where it started.
let place = history.state?.place ?? 0;
history.replaceState({ ...history.state, place }, "");

function push(url) {
  history.replaceState({ place, y: scrollY }, "");
  place += 1;
  history.pushState({ place }, "", url);
}

async function mayLeave() {
  if (!isUnsaved()) return true;
  if (!(await mayLose())) return false;
  page.replaceChildren(); // going straight back shows the saved state
  forget();
  return true;
}

async function arrive(y = 0) {
  const before = open;
  if (!before?.page?.isOne) scrollTo(0, 0);
  await route(y);
  if (open !== before) page.focus({ preventScroll: true }); // otherwise the page itself manages focus
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !found(url.pathname) || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  follow(url);
});

async function follow(url) {
  if (!(await mayLeave())) return;
  push(url);
  await arrive();
}

addEventListener("pageshow", (event) => event.persisted && location.reload()); // restored from the cache: the session may have ended since
addEventListener("popstate", async ({ state }) => {
  if (!session) return;
  if (state?.place === undefined) { // an entry without our number: usually an anchor on this page
    history.replaceState({ place: (place += 1) }, "");
    return void (address === location.pathname + location.search || arrive());
  }
  const steps = state.place - place;
  if (!steps) return; // this event comes from `history.go` below
  if (isUnsaved()) {
    history.go(-steps);
    if (await mayLeave()) history.go(steps);
    return;
  }
  place = state.place;
  await arrive(state.y);
});

const closeMenu = (event) => document.querySelectorAll(".menu[open]").forEach((menu) => { if (event.key === "Escape" || (!event.key && !menu.contains(event.target))) menu.open = false; });
addEventListener("click", closeMenu);
addEventListener("keydown", closeMenu);

// ── the top of every page ───────────────────────────────────────────────────────────────────────────────

function showNav() {
  const part = `/${location.pathname.split("/")[1]}`;
  const nav = document.getElementById("nav");
  nav.replaceChildren(
    ...NAV.filter(([path, , role]) => (!role || session.role === role) && (path !== "/inbox" || session.has_inbox)).map(([path, name]) => h("a", { href: to(path), "aria-current": path === part ? "page" : null }, name)));
  const current = nav.querySelector("[aria-current]"); // on a phone, it may be out of view
  if (current) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
  document.getElementById("who").replaceChildren(
    h("span.live", { id: "live", role: "status" }),
    session.role === "admin" ? h("button", { type: "button", class: "chosen", onclick: choose, "aria-label": `Workspace: ${chosen() || "all workspaces"}. Change` }, chosen() || "All workspaces") : h("span.chosen", session.workspace),
    h("details.menu", h("summary", session.name || session.address.split("@")[0]),
      h("div", h("p.quiet", session.address, h("br"), session.role), h("a", { href: to("/settings/you") }, "Your account"), h("a", { href: "/docs" }, "HTTP API"), button("Sign out", signOut))));
}

const workspaces = async (prefix = "") => (await get(`/v1/admin/workspaces/names${query({ prefix })}`).catch(() => [])).map((each) => each.name);

async function choose() {
  const names = await workspaces();
  const isAll = names.length < NAMES_MAX;
  const common = { name: "workspace", label: "Workspace", value: chosen() || "" };
  const fitting = h("datalist", { id: "fitting" }, names.map((name) => h("option", { value: name })));
  await dialog("Choose a workspace", {
    text: isAll ? null : [h("p", "Start typing a name, or leave the field empty to choose all workspaces."), fitting],
    fields: [isAll ? { ...common, options: among(names) } : { ...common, list: "fitting", autocomplete: "off", maxlength: 100, oninput: (event) => suggest(event.currentTarget, fitting) }],
    yes: "Choose",
    act: async ({ workspace }) => {
      const base = location.pathname.split("/").slice(0, 2).join("/"); // the open item may belong to another workspace
      await follow(new URL(base + query({ workspace: workspace.trim() }), location));
    },
  });
}

function among(names) {
  const options = [["", "All workspaces"], ...names.map((name) => [name, name])];
  if (chosen() && !names.includes(chosen())) options.push([chosen(), chosen()]);
  return options;
}

async function suggest(input, fitting) {
  const typed = input.value;
  const names = await workspaces(typed);
  if (input.value === typed) fitting.replaceChildren(...names.map((name) => h("option", { value: name })));
}

async function signOut() {
  if (!(await mayLeave())) return;
  await post("/v1/auth/sign-out");
  location.assign("/sign-in");
}

function showLive(state, words) {
  const mark = document.getElementById("live");
  if (!mark) return;
  mark.className = `live is-${state}`;
  mark.textContent = { live: "Live", lost: "Connection lost. Reconnecting …", trouble: words, off: "" }[state];
}

ask("/v1/auth/session")
  .then((found_) => {
    session = found_;
    remember(session);
    return route();
  })
  .catch((error) => {
    if (error.status !== 401) page.replaceChildren(trouble(error, () => location.reload()));
  });
