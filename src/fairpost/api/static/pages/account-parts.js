// Shared by the account list and the account page: display and actions.

import { ask, get, post, segment } from "../ask.js";
import { h } from "../dom.js";
import { LOOKS, badge, button, countdown, dialog, meter, tell, to } from "../parts.js";
import { number, percent } from "../format.js";
import { limitFields, limitsOf } from "./limits.js";

const ACTIVE = { "account.sending": "sending", "account.idle": "ready", "engine.none": "no engine" };

// Managers of the workspace and admins can change accounts.
export const changes = ({ is }) => is("admin", "manager");
export const link = (ctx, name) => h("a", { href: to(`/accounts/${name.split("/").map(segment).join("/")}`) }, name);

export const situation = ({ situation: name, condition }) => badge(name === "active" ? ACTIVE[condition.code] ?? "waiting" : name, LOOKS[condition.tone]);

// Whether the account's mailbox is read and, if not, why.
export const mailbox = ({ state, condition }) => [badge(state, LOOKS[condition.tone]), state === "reading" ? null : h("p.reason", condition.text)];

// Whether something prevents the account from sending.
export const isBarred = ({ condition }) => !["working", "idle"].includes(condition.tone);

export function driver(account) {
  if (account.is_driven) return account.driven_by ? `worker on ${account.driven_by}` : "worker running";
  return account.situation === "active" ? "no worker: nothing to send, or no engine is running" : "no worker";
}

export const hour = (account) => meter("This hour", account.hour_used, account.hour_max);
export const today = (account) => meter("Today", account.day_used, account.day_max);

// Bounces pause the account only after a minimum number of e-mails. With fewer e-mails, no bar is shown.
export function bounces({ day_used: used, day_bounces: bounced, bounce_percent_max: most, bounce_sample_min: sample }) {
  const part = used ? bounced / used : 0;
  const said = bounced ? `Bounces: ${bounced}, ${percent(part)}` : "Bounces: none";
  if (most === null) return meter("Bounces today", 0, null, `${said}, no limit`);
  if (used < sample) return meter("Bounces today", 0, null, `${said}; the limit applies after ${sample} e-mails`);
  return meter("Bounces today", 100 * part, most || 0.001, `${said}; limit ${most}%`);
}

// Today's attempts that failed, will be retried, or are in doubt.
export const errors = ({ day_errors: failed }) => (failed ? h("small", `Errors today: ${number(failed)}`) : null);

// When the account can send next.
export function next(account) {
  if (account.may_send_at) return countdown(account.may_send_at);
  if (account.situation === "active") return "Now";
  if (account.situation === "no_server") return h("small", "after you add a server");
  return h("small", "after you resume it");
}

// ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

// Without a workspace, admins use the full names of accounts.
const place = ({ workspace }, name) => (workspace ? `/v1/accounts/${segment(name)}` : `/v1/admin/accounts/${name.split("/").map(segment).join("/")}`);

export function doing(ctx, account) {
  if (!changes(ctx)) return null;
  const isStopped = ["suspended", "paused"].includes(account.situation);
  return h("div.actions",
    isStopped ? button("Resume", () => resume(ctx, account), { label: `Resume ${account.name}` }) : button("Pause", () => pause(ctx, account), { label: `Pause ${account.name}` }),
    account.situation === "no_server" ? null : button("Verify", () => verify(ctx, account), { label: `Verify ${account.name}` }));
}

const pause = (ctx, { name }) => dialog(`Pause ${name}?`, {
  text: "The account will stop sending e-mails. Any send already in progress will finish. Queued e-mails will use other accounts in the pool or wait.",
  fields: [{ name: "reason", label: "Reason", hint: "Visible to other members.", required: true, maxlength: 500 }],
  yes: "Pause", tone: "danger",
  act: async ({ reason }) => {
    await post(`${place(ctx, name)}/pause`, { reason });
    tell(`${name} is paused.`);
  },
});

async function resume(ctx, { name }) {
  await post(`${place(ctx, name)}/resume`);
  tell(`${name} is resumed.`);
}

export async function unblock(ctx, { name }, workspace) {
  await post(`${place(ctx, name)}/unblock`, { workspace });
  tell(`${workspace} can send through ${name} again.`);
}

export async function verify(ctx, { name }) {
  ctx.state.verified = { name, words: "Connecting to the server …" };
  ctx.show();
  try {
    ctx.state.verified = { name, ...(await post(`${place(ctx, name)}/verify`)) };
  } catch (error) {
    ctx.state.verified = { name, ok: false, words: error.message };
  }
  ctx.show();
}

// The result of a verification, shown while the page is open.
export function told({ state }) {
  const found = state.verified;
  if (!found) return null;
  return h("div.notice", { class: found.ok === undefined ? null : found.ok ? "good" : "bad", role: "status", "data-key": "verified" },
    h("p", h("strong", found.name), ": ", found.words),
    found.steps?.length ? h("p.steps", found.steps.map((step) => [badge(step.step, step.ok ? "good" : "bad"), " "])) : null);
}

// ── add an account ──────────────────────────────────────────────────────────────────────────────────────

export const add = (ctx) => (ctx.workspace ? ctx.go("/settings/accounts") : command());

const command = () => dialog("Add account", {
  text: ["To add an account to a workspace, first choose the workspace at the top. To add a shared account, run this on the server:",
    h("code.block", "fairpost account add NAME --from ADDRESS --smtp smtp+starttls://USER@HOST --ask-password")],
  yes: "OK",
});

// ── limits ──────────────────────────────────────────────────────────────────────────────────────────────

// Limits for a workspace's account are changed in that workspace. Limits for shared accounts are changed on the server.
export function limitsButton(ctx, { now: account, limits, tag }) {
  if (!changes(ctx)) return null;
  const workspace = ctx.workspace || account.workspace;
  if (!workspace) return h("p.quiet", "To change these limits, run this on the server: ", h("code", `fairpost account set ${account.name} --hourly … --daily …`));
  const name = ctx.workspace ? account.name : account.name.slice(workspace.length + 1);
  return button("Change limits", async () => {
    const described = await get("/v1/limits", {}, { workspace });
    await dialog(`Limits for ${account.name}`, {
      text: "If a field is empty, there is no limit. Changes apply from the next e-mail on.",
      fields: limitFields(described, limits),
      yes: "Save",
      act: async (given) => {
        await ask(`/v1/accounts/${segment(name)}`, { method: "PATCH", workspace, seen: tag, body: { limits: limitsOf(described, given, limits) } });
        tell("Limits saved.");
      },
    });
  });
}
