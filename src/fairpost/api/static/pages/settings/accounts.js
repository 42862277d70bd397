// An account is added, at whichever provider, or given another server; and it is tried at once.

import { ask, get, post, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { entered, form } from "../../form.js";
import { field, heading, link, panel, tabs, to } from "../../parts.js";
import { told, verify } from "../account-parts.js";
import { hasTokens, isSecret, loginOf, LOGINS, PROVIDERS, providerOf, serverFields } from "./account-kinds.js";

const PATH = "/settings/accounts";
const KEY_BYTES_MAX = 100000; // what is longer is no key file

export default {
  async load({ params }) {
    const [known, account] = await Promise.all([get("/api/providers"), params.name ? get(`/api/accounts/${segment(params.name)}`) : null]);
    return { known, account };
  },

  view(ctx) {
    const { account } = ctx.data;
    const provider = PROVIDERS.find((each) => each.name === ctx.values.with) ?? (account && providerOf(account.server));
    if (ctx.state.added) return added(ctx, ctx.state.added);
    if (!provider) return panel("Where is the mailbox?", h("ul.choices", PROVIDERS.map(choice)));
    const path = account ? `${PATH}/${segment(account.name)}` : PATH;
    return [
      account && heading(`The server of ${account.name}`, link(`/accounts/${segment(account.name)}`, "Back to the account")),
      told(ctx),
      tabs("Provider", PROVIDERS.map((each) => [`${path}?with=${each.name}`, each.title]), `${path}?with=${provider.name}`),
      panel(provider.title, h("p.quiet", provider.about), entry(ctx, provider)),
    ];
  },
};

const choice = ({ name, title, about }) => h("li", { "data-key": name }, h("a", { href: to(PATH, { with: name }) }, title), h("p.quiet", about));

function added(ctx, { name }) {
  return panel(`${name} is added`, told(ctx),
    h("p", link(`/accounts/${segment(name)}`, "Open the account"), " · ", link(`${PATH}/${segment(name)}`, "Change its server"), " · ", link(PATH, "Add another")));
}

// ── what is asked for ───────────────────────────────────────────────────────────────────────────────────

function entry(ctx, provider) {
  const { account, known } = ctx.data;
  const { state } = ctx;
  const hasSame = account?.server && providerOf(account.server) === provider;
  const login = state.login ?? (hasSame ? loginOf(account.server) : provider.logins[0]);
  const isKept = hasSame && login === loginOf(account.server);
  const preset = presetFor(provider, known, state.typed?.provider);
  const fields = [...about(account), ...serverFields(provider, login, hasSame ? account.server : preset?.smtp, isKept), ...(account ? [] : limits(provider, known, preset))]
    .map((each) => ({ ...each, value: isSecret(each.name) ? each.value : state.typed?.[each.name] ?? each.value }));
  const chooseLogin = (event) => {
    const box = document.querySelector("form[data-key^='form account']");
    Object.assign(state, { login: event.target.value, typed: { ...state.typed, ...entered(box, fields) } }); // what is asked for both ways stays
    ctx.show();
  };
  const act = async (given) => {
    const body = await bodyOf(given, provider, login, isKept ? account.server : null);
    return account ? change(ctx, body) : add(ctx, withLimits(body, known));
  };
  const options = provider.logins.map((each) => [each, LOGINS[each]]);
  return [
    field({ name: "login", label: "It signs in with", options, value: login, onchange: chooseLogin }),
    form(`account ${account?.name} ${provider.name} ${login} ${state.saved ?? 0}`, fields, { yes: account ? "Change and verify" : "Add and verify", act, isShort: true, oninput: (event) => fill(event, provider, known) }),
  ];
}

const about = (account) => [
  !account && { name: "name", label: "Name", required: true, maxlength: 100, autocomplete: "off", hint: "As you want to call it, like sales." },
  { name: "address", label: "E-mail address", type: "email", required: true, maxlength: 500, value: account?.address ?? "", autocomplete: "off", hint: "Of a domain that this workspace has shown to be its own." },
  { name: "display_name", label: "Name that recipients see", value: account?.display_name ?? "", maxlength: 200, autocomplete: "off" },
  { name: "pool", label: "Pool", required: true, maxlength: 100, value: account?.pool ?? "default", hint: "Accounts of one pool share the work." },
].filter(Boolean);

// ── limits ──────────────────────────────────────────────────────────────────────────────────────────────

const presetFor = ({ presets }, known, chosen) => known.find((each) => each.name === (chosen ?? presets[0]));

function limits({ presets }, known, preset) {
  const order = [...presets.map((name) => known.find((each) => each.name === name)), ...known.filter((each) => !presets.includes(each.name))].filter(Boolean);
  return [
    { name: "provider", label: "Limits to begin with", options: [...order.map((each) => [each.name, each.title]), ["none", "none"]], value: preset?.name ?? "none", hint: "Pauses and warm-up come with them. All can be changed later." },
    { name: "limits.hourly_max", label: "E-mails an hour", type: "number", min: 1, value: preset?.limits.hourly_max ?? "", hint: "Left empty: no limit." },
    { name: "limits.daily_max", label: "E-mails a day", type: "number", min: 1, value: preset?.limits.daily_max ?? "", hint: "Left empty: no limit." },
  ];
}

// Whoever chooses other limits, or types an address whose provider is known, gets its numbers, and its server where that is known.
function fill({ target }, provider, known) {
  const box = target.form;
  if (target.name === "provider") box.isChosen = true;
  const preset = target.name === "provider" ? { name: target.value, ...known.find((each) => each.name === target.value) } : target.name === "address" && !box.isChosen && byDomain(target.value, provider, known);
  const chosen = box.elements.namedItem("provider");
  if (!preset || !chosen) return;
  const values = { provider: preset.name, "limits.hourly_max": preset.limits?.hourly_max ?? "", "limits.daily_max": preset.limits?.daily_max ?? "" };
  if (preset.smtp && provider.place === "smtp") for (const [name, value] of Object.entries(preset.smtp)) values[`smtp.${name}`] = value;
  for (const [name, value] of Object.entries(values)) box.elements.namedItem(name).value = value;
}

function byDomain(address, { place }, known) {
  const domain = address.split("@").at(-1).trim().toLowerCase();
  const found = known.find((each) => each.domains.includes(domain)) ?? known.find((each) => each.domains.some((rule) => isCountryDomain(domain, rule)));
  return found?.name === "gmail" && place === "gmail" ? known.find((each) => each.name === "gmail-api") : found;
}

// hotmail.co.uk of hotmail.*
function isCountryDomain(domain, rule) {
  const [name, ...country] = domain.split(".");
  return rule === `${name}.*` && /^(com?\.)?[a-z]{2}$/.test(country.join("."));
}

// Only what differs from the provider's numbers is given: those may be better known one day.
function withLimits({ limits: given = {}, ...body }, known) {
  const own = known.find((each) => each.name === body.provider)?.limits ?? {};
  const other = Object.fromEntries(["hourly_max", "daily_max"].map((name) => [name, given[name] ?? null]).filter(([name, value]) => value !== (own[name] ?? null)));
  return { ...body, ...(Object.keys(other).length && { limits: other }) };
}

// ── what the API is given ───────────────────────────────────────────────────────────────────────────────

async function bodyOf(given, { place }, login, kept) {
  const body = {};
  for (const [path, value] of Object.entries(given)) {
    const typed = typeof value === "string" && !isSecret(path) ? value.trim() : value;
    if (typed === null || typed === "") continue;
    const names = path.split(".");
    const last = names.pop();
    let part = body;
    for (const name of names) part = part[name] ??= {};
    part[last] = typed instanceof File ? await typed.slice(0, KEY_BYTES_MAX).text() : typed;
  }
  body.display_name ??= null;
  const server = (body[place] ??= {});
  if (hasTokens(login)) server.oauth = { kind: login, ...server.oauth };
  if (login === "password") server.user ??= body.address;
  if (login === "none") server.user = null;
  if (kept && isSame(server, kept, given)) {
    delete server.oauth; // what was sealed stays
    if (place === "gmail") delete body.gmail;
  }
  return body;
}

function isSame(server, kept, given) {
  const isTyped = Object.entries(given).some(([name, value]) => isSecret(name) && value);
  const { client_id: client = null, tenant = null } = server.oauth ?? {};
  return !isTyped && client === (kept.client_id ?? null) && tenant === (kept.tenant ?? null) && (server.subject ?? null) === (kept.subject ?? null);
}

async function add(ctx, body) {
  ctx.state.added = await post("/api/accounts", body);
  await verify(ctx, ctx.state.added);
}

// Only what was changed: others may have changed the rest meanwhile.
async function change(ctx, given) {
  const body = Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== ctx.data.account[name]));
  const { name } = await ask(`/api/accounts/${segment(ctx.data.account.name)}`, { method: "PATCH", body });
  Object.assign(ctx.state, { login: null, typed: null, saved: (ctx.state.saved ?? 0) + 1 }); // no secret stays in a field
  await ctx.reload();
  await verify(ctx, { name });
}
