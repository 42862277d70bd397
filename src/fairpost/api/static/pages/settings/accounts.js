// Adds an account or changes an account's server, and verifies the account immediately.

import { ask, get, post, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { entered, form } from "../../form.js";
import { field, heading, link, panel, tabs, to } from "../../parts.js";
import { told, verify } from "../account-parts.js";
import { limitFields, limitsOf } from "../limits.js";
import { bodyOf, choiceOf, secretsOf, serverFields, signInOf } from "./account-kinds.js";

const PATH = "/settings/accounts";

export default {
  async load({ params }) {
    const own = params.name ? get(`/v1/accounts/${segment(params.name)}`) : null;
    const [choices, known, described, account] = await Promise.all([get("/v1/transports"), get("/v1/providers"), get("/v1/limits"), own]);
    return { choices, known, account, asked: described.filter((each) => each.is_asked_first) };
  },

  view(ctx) {
    const { account, choices } = ctx.data;
    const chosen = choices.find((each) => each.name === ctx.values.with) ?? (account && choiceOf(choices, account.server));
    if (ctx.state.added) return added(ctx, ctx.state.added);
    if (!chosen) return panel("Choose a provider", h("ul.choices", choices.map(offered)));
    const path = account ? `${PATH}/${segment(account.name)}` : PATH;
    return [
      account && heading(`Server for ${account.name}`, link(`/accounts/${segment(account.name)}`, "Back to the account")),
      told(ctx),
      tabs("Provider", choices.map((each) => [`${path}?with=${each.name}`, each.title]), `${path}?with=${chosen.name}`),
      panel(chosen.title, h("p.quiet", chosen.about), entry(ctx, chosen)),
    ];
  },
};

const offered = ({ name, title, about }) => h("li", { "data-key": name }, h("a", { href: to(PATH, { with: name }) }, title), h("p.quiet", about));

function added(ctx, { name }) {
  return panel(`${name} added`, told(ctx),
    h("p", link(`/accounts/${segment(name)}`, "Open the account"), " · ", link(`${PATH}/${segment(name)}`, "Change server"), " · ", link(PATH, "Add another")));
}

// ── the form ────────────────────────────────────────────────────────────────────────────────────────────

function entry(ctx, choice) {
  const { account, choices, known } = ctx.data;
  const { state } = ctx;
  const had = account?.server && choiceOf(choices, account.server) === choice ? signInOf(choice, account.server) : null;
  const signIn = choice.sign_ins.find(({ name }) => name === state.login) ?? had ?? choice.sign_ins[0];
  const isKept = signIn === had;
  const secrets = secretsOf(signIn);
  const preset = presetFor(choice, known, state.typed?.provider);
  const fields = [...about(account), ...serverFields(signIn, had ? account.server : preset?.[choice.kind], isKept), ...(account ? [] : limits(choice, ctx.data, preset))]
    .map((each) => ({ ...each, value: secrets.has(each.name) ? each.value : state.typed?.[each.name] ?? each.value }));
  const chooseLogin = (event) => {
    const box = document.querySelector("form[data-key^='form account']");
    Object.assign(state, { login: event.target.value, typed: { ...state.typed, ...entered(box, fields) } }); // keeps what was entered in fields that both methods have
    ctx.show();
  };
  const act = async (given) => {
    const body = await bodyOf(given, choice, signIn, isKept ? account.server : null);
    return account ? change(ctx, body) : add(ctx, withLimits(body, ctx.data));
  };
  const options = choice.sign_ins.map(({ name, title }) => [name, title]);
  return [
    options.length > 1 && field({ name: "login", label: "Sign-in method", options, value: signIn.name, onchange: chooseLogin }),
    form(`account ${account?.name} ${choice.name} ${signIn.name} ${state.saved ?? 0}`, fields, { yes: account ? "Save and verify" : "Add and verify", act, isShort: true, oninput: (event) => fill(event, choice, ctx.data) }),
  ];
}

const about = (account) => [
  !account && { name: "name", label: "Name", required: true, maxlength: 100, autocomplete: "off", hint: "For example: sales." },
  { name: "address", label: "E-mail address", type: "email", required: true, maxlength: 500, value: account?.address ?? "", autocomplete: "off", hint: "The address's domain must be verified for this workspace." },
  { name: "display_name", label: "Display name", value: account?.display_name ?? "", maxlength: 200, autocomplete: "off" },
  { name: "pool", label: "Pool", required: true, maxlength: 100, value: account?.pool ?? "default", hint: "The pool's e-mails are distributed among its accounts." },
].filter(Boolean);

// ── limits ──────────────────────────────────────────────────────────────────────────────────────────────

const presetFor = ({ presets }, known, chosen) => known.find((each) => each.name === (chosen ?? presets[0]));

function limits({ presets }, { known, asked }, preset) {
  const order = [...presets.map((name) => known.find((each) => each.name === name)), ...known.filter((each) => !presets.includes(each.name))].filter(Boolean);
  return [
    { name: "provider", label: "Default limits", options: [...order.map((each) => [each.name, each.title]), ["none", "none"]], value: preset?.name ?? "none", hint: "The default limits also set gaps and warm-up. You can change all limits later." },
    ...limitFields(asked, preset?.limits, "limits.").map((each) => ({ ...each, hint: "Leave empty for no limit." })),
  ];
}

// If the user chooses a provider, or types an address at a known provider, the limits and the server are filled in.
function fill({ target }, choice, { known, asked }) {
  const box = target.form;
  if (target.name === "provider") box.isChosen = true;
  const preset = target.name === "provider" ? { name: target.value, ...known.find((each) => each.name === target.value) } : target.name === "address" && !box.isChosen && byDomain(target.value, choice, known);
  const chosen = box.elements.namedItem("provider");
  if (!preset || !chosen) return;
  const values = { provider: preset.name, ...Object.fromEntries(limitFields(asked, preset.limits, "limits.").map(({ name, value }) => [name, value])) };
  for (const [name, value] of Object.entries(preset[choice.kind] ?? {})) values[`${choice.kind}.${name}`] = value;
  for (const [name, value] of Object.entries(values)) box.elements.namedItem(name).value = value;
}

function byDomain(address, { presets_instead: instead }, known) {
  const domain = address.split("@").at(-1).trim().toLowerCase();
  const found = known.find((each) => each.domains.includes(domain)) ?? known.find((each) => each.domains.some((rule) => isCountryDomain(domain, rule)));
  return found?.name in instead ? known.find((each) => each.name === instead[found.name]) : found;
}

// hotmail.co.uk matches hotmail.*
function isCountryDomain(domain, rule) {
  const [name, ...country] = domain.split(".");
  return rule === `${name}.*` && /^(com?\.)?[a-z]{2}$/.test(country.join("."));
}

// Sends only limits that differ from the preset, so later corrections to the preset also apply.
function withLimits({ limits: given = {}, ...body }, { known, asked }) {
  const own = known.find((each) => each.name === body.provider)?.limits ?? {};
  const other = limitsOf(asked, given, own);
  return { ...body, ...(Object.keys(other).length && { limits: other }) };
}

async function add(ctx, body) {
  ctx.state.added = await post("/v1/accounts", body);
  await verify(ctx, ctx.state.added);
}

// Sends only changed values, because other people may have changed the rest.
async function change(ctx, given) {
  const body = Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== ctx.data.account[name]));
  const { name } = await ask(`/v1/accounts/${segment(ctx.data.account.name)}`, { method: "PATCH", body });
  Object.assign(ctx.state, { login: null, typed: null, saved: (ctx.state.saved ?? 0) + 1 }); // removes secrets from the form
  await ctx.reload();
  await verify(ctx, { name });
}
