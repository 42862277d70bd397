// One campaign: how it stands, what it waits for, who got it; and launching, pausing, resuming, cancelling it.

import { get, post, put, remove, segment } from "../ask.js";
import { h } from "../dom.js";
import { badge, button, chart, columns, confirmed, dialog, empty, facts, field, figure, figures, heading, headline, link, mailFrame, moment, pager, panel, progress, state, table, tabs, tell } from "../parts.js";
import { counted, duration, emails, number, words } from "../words.js";
import { draftDialog } from "./draft.js";

const WAITING = ["ready", "scheduled", "to_follow", "parked", "claimed", "sending"];
// What is shown of the recipients, by name: the states of their e-mails.
const SHOWN = {
  "": ["All", null],
  failed: ["Failed", ["failed"]],
  bounced: ["Bounced", ["bounced"]],
  waiting: ["Waiting", WAITING],
  sent: ["Sent", ["sent"]],
  in_doubt: ["In doubt", ["in_doubt"]],
  left_out: ["Suppressed or cancelled", ["suppressed", "cancelled"]],
};
const PAGE = 50;

export default {
  title: "Campaign",
  topic: ({ params }) => ["campaign", { name: params.name }],

  async load(ctx) {
    if (ctx.is("admin") && !ctx.workspace) return null;
    if (ctx.params.part === "recipients") return recipientsFrom(ctx, null);
    if (ctx.params.part === "preview") return previewed(ctx);
    return null;
  },

  view(ctx) {
    const { params, live, is, workspace } = ctx;
    document.title = `${params.name} · Fairpost`;
    if (is("admin") && !workspace) return [heading(params.name), empty("Campaigns are those of a workspace. Choose one above.", link("/campaigns", "To the campaigns of all"))];
    if (!live) return [heading(params.name), h("p.quiet", "Looking …")];
    if (!live.campaign) return [heading(params.name), empty(`There is no campaign ${params.name} here.`, link("/campaigns", "To the campaigns"))];
    const campaign = live.campaign;
    const path = `/campaigns/${segment(campaign.id)}`;
    return [
      heading(campaign.id, state(campaign.state), actions(ctx, campaign)),
      headline(campaign.headline),
      tabs("Parts of the campaign", [[path, "Progress"], [`${path}/recipients`, "Recipients"], [`${path}/preview`, "Preview"]], params.part ? `${path}/${params.part}` : path),
      params.part === "recipients" ? recipients(ctx, campaign) : params.part === "preview" ? preview(ctx, campaign) : progressPart(ctx, campaign),
    ];
  },
};

const api = (campaign, what = "") => `/v1/campaigns/${segment(campaign.id)}${what}`;
const sum = (states, names) => names.reduce((n, name) => n + (states[name] || 0), 0);

// ── doing ───────────────────────────────────────────────────────────────────────────────────────────────

function actions(ctx, campaign) {
  const may = ctx.is("admin", "manager", "sender");
  const manages = ctx.is("admin", "manager");
  const is = (...states) => states.includes(campaign.state);
  return [
    manages && is("draft") && button("Change", () => change(campaign)),
    manages && is("draft") && button("Remove", () => removed(ctx, campaign), { tone: "danger" }),
    may && is("draft") && button("Launch", () => launch(campaign), { tone: "main" }),
    may && is("scheduled", "running") && button("Pause", () => pause(campaign)),
    may && is("paused", "failed") && button("Resume", () => resume(campaign), { tone: "main" }),
    may && is("scheduled", "running", "paused", "failed") && button("Cancel the campaign", () => cancel(campaign), { tone: "danger" }),
  ];
}

async function launch(campaign) {
  const found = await get(api(campaign, "/forecast")).catch((error) => {
    if (error.status !== 409) throw error;
    return { refused: error.message };
  });
  await dialog(`Launch ${campaign.id}?`, {
    text: foreseen(found),
    fields: [{ name: "skip", label: "Leave out people who lack a field that the words need", type: "checkbox", hint: "Otherwise nothing is launched if there are any." }],
    yes: "Launch",
    act: async ({ skip }) => {
      const done = await post(api(campaign, "/launch"), { skip_incomplete: skip });
      tell(`Launched. ${emails(done.scheduled)} ${done.scheduled === 1 ? "is" : "are"} planned${done.is_done ? "" : " so far; an engine plans the rest"}.${done.left_out ? ` ${counted(done.left_out, "person lacks", "people lack")} a field and ${done.left_out === 1 ? "is" : "are"} left out.` : ""}`);
    },
  });
}

function foreseen({ forecast, refused }) {
  if (refused) return [h("p", "When it will be done cannot be foreseen:"), h("p.quiet", refused)];
  if (!forecast) return [h("p", "Nobody is on its lists. There is nothing to send.")];
  return [
    h("p", `${emails(forecast.emails)} will be sent. The last one goes out `, h("strong", moment(forecast.ends_at)), `, in ${duration(forecast.finished_after_s)}, if nothing comes between.`),
    h("p.quiet", forecast.why),
    forecast.suggestions.length ? [h("p", "Sooner:"), h("ul", forecast.suggestions.map((each) => h("li", each.words)))] : null,
    h("p.quiet", "From then on it stays as it is; it can be paused and cancelled."),
  ];
}

async function pause(campaign) {
  await post(api(campaign, "/pause"), {});
  tell("Paused. What is being sent at this moment is finished.");
}

async function resume(campaign) {
  await post(api(campaign, "/resume"), {});
  tell("It goes on where it stopped.");
}

const cancel = (campaign) => confirmed(`Cancel ${campaign.id}?`, {
  text: `${emails(campaign.waiting)} that wait will never be sent. What was sent stays sent. A cancelled campaign cannot be resumed; to stop it for a while, pause it.`,
  yes: "Cancel it for good",
  act: () => post(api(campaign, "/cancel"), {}),
  done: "Cancelled.",
});

async function change(campaign) {
  if (await draftDialog(campaign, (id, body) => put(`/v1/campaigns/${segment(id)}`, body))) tell("Changed.");
}

async function removed(ctx, campaign) {
  const isGone = await confirmed(`Remove ${campaign.id}?`, { text: "The draft is gone for good. Nothing of it was sent.", yes: "Remove", act: () => remove(api(campaign)), done: "Removed." });
  if (isGone) await ctx.go("/campaigns");
}

// ── its progress ──────────────────────────────────────────────────────────────────────────────────────────

function progressPart(ctx, campaign) {
  const { states } = campaign;
  const all = campaign.sent + campaign.missed + campaign.waiting;
  const path = `/campaigns/${segment(campaign.id)}/recipients`;
  const to_ = (name, n) => (n ? link(`${path}?show=${name}`, number(n)) : "0");
  if (campaign.state === "draft") return [figures(figure("recipients", number(campaign.recipients), "on its lists now")), columns(setup(campaign), steps(campaign))];
  return [
    all ? progress(campaign.id, { emails: all, sent: campaign.sent, missed: campaign.missed, left: campaign.waiting }) : null,
    figures(
      figure("recipients", number(campaign.recipients), campaign.left_out ? `${number(campaign.left_out)} left out: they lack a field` : null),
      figure("sent", number(campaign.sent), campaign.expected === null || campaign.finished_at ? null : `${number(campaign.expected)} foreseen by now`),
      figure("failed", to_("failed", sum(states, ["failed"]))),
      figure("bounced", to_("bounced", sum(states, ["bounced"]))),
      figure("waiting", to_("waiting", sum(states, WAITING)), states.to_follow ? `${number(states.to_follow)} follow a step before` : null),
      figure("in doubt", to_("in_doubt", sum(states, ["in_doubt"]))),
      figure("held", number(sum(states, ["parked"])), "of paused prospects"),
    ),
    panel("Forecast and reality", chart(campaign.chart), expectation(campaign)),
    columns(steps(campaign), accounts(campaign)),
    setup(campaign),
  ];
}

function expectation(campaign) {
  const { forecast, revised_forecast, drift_s: drift } = campaign;
  const why = revised_forecast?.why_none || (!revised_forecast && forecast?.why_none);
  return facts([
    forecast?.done_at && ["foreseen at the launch", moment(forecast.done_at)],
    campaign.done_at && [campaign.state === "completed" ? "done" : campaign.finished_at ? "ended" : "expected by now", [moment(campaign.done_at), drift === null ? null : ` · ${drifted(drift)}`]],
    why && ["no forecast", why],
    campaign.counted_at && ["counted", [moment(campaign.counted_at), ". So large a campaign is counted every minute or less often."]],
    ["times in the chart", `on the clock of ${campaign.timezone}`],
  ]);
}

const drifted = (seconds) => (Math.abs(seconds) < 60 ? "as foreseen" : `${duration(Math.abs(seconds))} ${seconds > 0 ? "later" : "sooner"} than foreseen`);

const steps = (campaign) => panel("Steps", table("Steps", ["step", "template", "after", ">sent", ">missed", ">waiting"],
  campaign.steps.map((each, n) => ({ key: `step ${each.step}`, cells: [each.step, each.template, n ? duration(campaign.delays_s[n]) : "at once", number(each.sent), number(each.missed), number(each.waiting)] }))));

const accounts = (campaign) => panel("Accounts", table("Accounts", ["account", ">sent", ">missed", ">waiting"],
  campaign.accounts.map((each) => ({ key: `account ${each.account} ${each.is_shared}`, cells: [each.account ?? h("span.quiet", each.is_shared ? "shared accounts" : "no account"), number(each.sent), number(each.missed), number(each.waiting)] })), "No account has any of it yet."));

const setup = (campaign) => panel("What it is", facts([
  ["sent to", campaign.lists.map((name) => `list ${name}`).join(", ")],
  ["sent by", campaign.account ? `account ${campaign.account}` : `pool ${campaign.pool}`],
  ["pause before each e-mail", campaign.gap ? `${duration(campaign.gap.min_s)} to ${duration(campaign.gap.max_s)}, at random` : "none of its own"],
  campaign.by_recipients_clock && ["hours", "on the clock of each recipient"],
  campaign.user && ["whose mail it is", campaign.user],
  ["made", moment(campaign.created_at)],
  campaign.starts_at && ["not before", moment(campaign.starts_at)],
  campaign.launched_at && ["launched", moment(campaign.launched_at)],
]));

// ── its recipients ──────────────────────────────────────────────────────────────────────────────────────

async function recipientsFrom(ctx, cursor) {
  const { show = "", address } = ctx.values;
  const [, states] = SHOWN[show] || SHOWN[""];
  ctx.state.seen = null;
  return get(api({ id: ctx.params.name }, "/recipients"), { state: states, address, cursor, limit: PAGE });
}

function recipients(ctx, campaign) {
  if (campaign.state === "draft") return h("section.panel", empty("Nobody has got anything of it yet. Launch it first."));
  const { show = "", address = "" } = ctx.values;
  const path = `/campaigns/${segment(campaign.id)}/recipients`;
  const search = (event) => {
    event.preventDefault();
    ctx.go(path, { show, address: new FormData(event.target).get("address").trim() });
  };
  return h("section.panel", { "aria-label": "Recipients" },
    tabs("Which recipients", Object.entries(SHOWN).map(([name, [title, states]]) => [name ? `${path}?show=${name}` : path, `${title} (${number(states ? sum(campaign.states, states) : Object.values(campaign.states).reduce((a, b) => a + b, 0))})`]), show ? `${path}?show=${show}` : path),
    h("form.filters", { role: "search", onsubmit: search },
      h("input", { type: "search", name: "address", value: address, placeholder: "The whole address of one", "aria-label": "The whole address of a recipient" }), h("button", { type: "submit" }, "Find"),
      retryButton(ctx, campaign)),
    changed(ctx, campaign),
    ctx.data && receipts(ctx, campaign));
}

function retryButton(ctx, campaign) {
  const failed = sum(campaign.states, ["failed"]);
  if (!failed || campaign.state === "cancelled" || !ctx.is("admin", "manager", "sender")) return null;
  return button("Retry only those that failed", () => retry(ctx, campaign, failed));
}

async function retry(ctx, campaign, failed) {
  let retried = 0;
  const isDone = await confirmed(`Try again for ${number(failed)}?`, {
    text: `${emails(failed)} of ${campaign.id} failed, and will be tried again. Whatever was sent, bounced or was cancelled stays as it is: nobody gets anything twice.`,
    yes: "Try again",
    tone: "main",
    act: async () => {
      for (let answer = null; !answer?.is_done; retried += answer.retried) answer = await post(api(campaign, "/retry"), { states: ["failed"] });
    },
  });
  if (!isDone) return;
  tell(`${emails(retried)} ${retried === 1 ? "is" : "are"} tried again.`);
  await ctx.reload();
}

// The list is that of the moment at which it was read: the figures above are live.
function changed(ctx, campaign) {
  const now = JSON.stringify(campaign.states);
  if (!ctx.state.seen) ctx.state.seen = now;
  return ctx.state.seen === now ? null : h("p.quiet", { "data-key": "changed" }, "It has changed since this list was read. ", button("Read it again", ctx.reload));
}

function receipts(ctx, campaign) {
  const { address } = ctx.values;
  const may = ctx.is("admin", "manager", "sender");
  const stop = (each) => (may && WAITING.includes(each.state) ? button("Stop", () => stopped(ctx, campaign, each), { label: `Stop for ${each.address}` }) : "");
  const rows = ctx.data.items.map((each) => ({
    key: each.email_id,
    cells: [link(`/emails/${each.email_id}`, each.address), each.step, state(each.state), each.reason, each.account, moment(each.at), each.attempts, ...(may ? [stop(each)] : [])],
  }));
  return [
    table("Recipients", ["recipient", "step", "outcome", "why", "account", "when", ">tries", ...(may ? [""] : [])], rows, address ? `Nothing like this for ${address}. Enter the whole address.` : "There are none."),
    pager(ctx.data.next, async (cursor) => {
      const { seen } = ctx.state;
      const page = await recipientsFrom(ctx, cursor);
      ctx.state.seen = seen;
      ctx.data = { items: [...ctx.data.items, ...page.items], next: page.next };
      ctx.show();
    }),
  ];
}

async function stopped(ctx, campaign, each) {
  const isDone = await confirmed(`Stop ${campaign.id} for ${each.address}?`, {
    text: "This recipient gets nothing more of this campaign, for good. Other campaigns and e-mails are not touched.",
    yes: "Stop",
    act: () => post(api(campaign, "/stop"), { address: each.address }),
    done: `${each.address} gets nothing more of it.`,
  });
  if (isDone) await ctx.reload();
}

// ── an e-mail of it ─────────────────────────────────────────────────────────────────────────────────────

async function previewed(ctx) {
  const { step = "1", to } = ctx.values;
  try {
    return await post(api({ id: ctx.params.name }, "/preview"), { step: Number(step), to: to || null });
  } catch (error) {
    return { refused: error.message };
  }
}

function preview(ctx, campaign) {
  const { step = "1", to = "" } = ctx.values;
  const show = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    ctx.go(`/campaigns/${segment(campaign.id)}/preview`, { step: given.get("step"), to: given.get("to").trim() });
  };
  return h("section.panel", { "aria-label": "Preview" },
    h("form.filters", { onsubmit: show },
      field({ name: "step", label: "Step", options: campaign.steps.map((each) => [String(each.step), `${each.step}: ${each.template}`]), value: step }),
      field({ name: "to", label: "As it reaches", type: "email", value: to, placeholder: "the first on its lists" }),
      h("button", { type: "submit" }, "Show")),
    shownMail(ctx, campaign));
}

function shownMail({ data, values }, campaign) {
  if (!data) return null;
  if (data.refused) return h("div.notice.bad", { role: "alert" }, h("p", data.refused));
  const from = data.from && (data.from.name ? `${data.from.name} <${data.from.address}>` : data.from.address);
  return [
    facts([["from", from || badge("no account is there to send it", "wait")], ["to", data.to], ["subject", [h("strong", data.subject), data.leaves_thread && h("p.reason", "Another subject than the first step’s: in Gmail it leaves the thread."), data.is_subject_inherited && h("p.quiet", "The first step’s, so that it stays in its thread.")]]]),
    data.html ? mailFrame(data.html, { key: `${campaign.id} ${data.step} ${data.to} ${values.step}`, title: `The e-mail to ${words(data.to)} as HTML` }) : null,
    data.text ? (data.html ? h("details", h("summary", "As text"), h("pre", data.text)) : h("pre", data.text)) : null,
  ];
}
