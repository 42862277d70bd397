// What the list of accounts and the page of one have in common: how one is shown, and what can be done with it.

import { ask, get, post, segment } from "../ask.js";
import { h } from "../dom.js";
import { LOOKS, badge, button, countdown, dialog, meter, tell, to } from "../parts.js";
import { number, percent } from "../words.js";
import { limitFields, limitsOf } from "./limits.js";

const ACTIVE = { "account.sending": "sending", "account.idle": "ready", "engine.none": "no engine" };

// Who changes accounts: managers of the workspace, and those who run the service.
export const changes = ({ is }) => is("admin", "manager");
export const link = (ctx, name) => h("a", { href: to(`/accounts/${name.split("/").map(segment).join("/")}`) }, name);

export const situation = ({ situation: name, condition }) => badge(name === "active" ? ACTIVE[condition.code] ?? "waiting" : name, LOOKS[condition.tone]);

// Whether something keeps it from sending.
export const isBarred = ({ condition }) => !["working", "idle"].includes(condition.tone);

export function driver(account) {
  if (account.is_driven) return account.driven_by ? `driven by ${account.driven_by}` : "a worker drives it";
  return account.situation === "active" ? "nobody: it has nothing to send, or no engine runs" : "nobody drives it";
}

export const hour = (account) => meter("this hour", account.hour_used, account.hour_max);
export const today = (account) => meter("today", account.day_used, account.day_max);

// They pause the account only from so many sent on; before that there is no bar.
export function bounces({ day_used: used, day_bounces: bounced, bounce_percent_max: most, bounce_sample_min: sample }) {
  const part = used ? bounced / used : 0;
  const said = bounced ? `bounces: ${bounced}, ${percent(part)}` : "bounces: none";
  if (most === null) return meter("bounces today", 0, null, `${said}, no limit`);
  if (used < sample) return meter("bounces today", 0, null, `${said}, counted from ${sample} on`);
  return meter("bounces today", 100 * part, most || 0.001, `${said} of at most ${most}\u00a0%`);
}

// Attempts of the day that failed, are to be repeated, or are in doubt.
export const errors = ({ day_errors: failed }) => (failed ? h("small", `errors today: ${number(failed)}`) : null);

// When it may send next, and what it waits for.
export function next(account) {
  if (account.may_send_at) return countdown(account.may_send_at);
  if (account.situation === "active") return "now";
  if (account.situation === "no_server") return h("small", "not before it has a server");
  return h("small", "not before somebody resumes it");
}

// ── doing ───────────────────────────────────────────────────────────────────────────────────────────────

// An admin who has not chosen a workspace acts on any account, by the name that the database has.
const place = ({ workspace }, name) => (workspace ? `/v1/accounts/${segment(name)}` : `/v1/admin/accounts/${name.split("/").map(segment).join("/")}`);

export function doing(ctx, account) {
  if (!changes(ctx)) return null;
  const isStopped = ["suspended", "paused"].includes(account.situation);
  return h("div.actions",
    isStopped ? button("Resume", () => resume(ctx, account), { label: `Resume ${account.name}` }) : button("Pause", () => pause(ctx, account), { label: `Pause ${account.name}` }),
    account.situation === "no_server" ? null : button("Verify", () => verify(ctx, account), { label: `Verify ${account.name}` }));
}

const pause = (ctx, { name }) => dialog(`Pause ${name}?`, {
  text: "It begins nothing more. What it is sending at this moment is finished; what waits goes out through other accounts of its pool, or waits.",
  fields: [{ name: "reason", label: "Why? Others see this.", required: true, maxlength: 500 }],
  yes: "Pause", tone: "danger",
  act: async ({ reason }) => {
    await post(`${place(ctx, name)}/pause`, { reason });
    tell(`${name} is paused.`);
  },
});

async function resume(ctx, { name }) {
  await post(`${place(ctx, name)}/resume`);
  tell(`${name} may send again.`);
}

export async function unblock(ctx, { name }, workspace) {
  await post(`${place(ctx, name)}/unblock`, { workspace });
  tell(`${workspace} may use ${name} again.`);
}

export async function verify(ctx, { name }) {
  ctx.state.verified = { name, words: `Trying the server of ${name} …` };
  ctx.show();
  try {
    ctx.state.verified = { name, ...(await post(`${place(ctx, name)}/verify`)) };
  } catch (error) {
    ctx.state.verified = { name, ok: false, words: error.message };
  }
  ctx.show();
}

// What came of trying a server, until the page is left.
export function told({ state }) {
  const found = state.verified;
  if (!found) return null;
  return h("div.notice", { class: found.ok === undefined ? null : found.ok ? "good" : "bad", role: "status", "data-key": "verified" },
    h("p", h("strong", found.name), ": ", found.words),
    found.steps?.length ? h("p.steps", found.steps.map((step) => [badge(step.step, step.ok ? "good" : "bad"), " "])) : null);
}

// ── adding ──────────────────────────────────────────────────────────────────────────────────────────────

export const add = (ctx) => (ctx.workspace ? ctx.go("/settings/accounts") : command());

const command = () => dialog("Add an account", {
  text: ["For a workspace: choose it at the top first. One of your own is added on the server, where its password is asked for:",
    h("code.block", "fairpost account add NAME --from ADDRESS --smtp smtp+starttls://USER@HOST --ask-password")],
  yes: "Understood",
});

// ── limits ──────────────────────────────────────────────────────────────────────────────────────────────

// Whoever looks at all workspaces changes an account in its own; the operator's own are changed on the server.
export function limitsButton(ctx, { now: account, limits, tag }) {
  if (!changes(ctx)) return null;
  const workspace = ctx.workspace || account.workspace;
  if (!workspace) return h("p.quiet", "Change them on the server: ", h("code", `fairpost account set ${account.name} --hourly … --daily …`));
  const name = ctx.workspace ? account.name : account.name.slice(workspace.length + 1);
  return button("Change the limits", async () => {
    const described = await get("/v1/limits", {}, { workspace });
    await dialog(`Limits of ${account.name}`, {
      text: "A field left empty is no limit. A change acts before the next e-mail.",
      fields: limitFields(described, limits),
      yes: "Change",
      act: async (given) => {
        await ask(`/v1/accounts/${segment(name)}`, { method: "PATCH", workspace, seen: tag, body: { limits: limitsOf(described, given, limits) } });
        tell("The limits are changed.");
      },
    });
  });
}
