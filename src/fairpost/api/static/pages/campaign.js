// One campaign: progress, recipients and preview; launch, pause, resume and cancel.

import { get, post, put, remove, segment } from "../ask.js";
import { h } from "../dom.js";
import { badge, button, chart, columns, confirmed, dialog, empty, facts, field, figure, figures, heading, headline, link, mailFrame, moment, pager, panel, progress, state, table, tabs, tell } from "../parts.js";
import { counted, duration, emails, number, words } from "../format.js";
import { NEVER_SENT, QUEUED } from "../model.js";
import { draftDialog } from "./draft.js";
import { findings } from "./findings.js";

// Filters for the recipients, with the states that each filter includes.
const SHOWN = {
  "": ["All", null],
  failed: ["Failed", ["failed"]],
  bounced: ["Bounced", ["bounced"]],
  waiting: ["Queued", QUEUED],
  sent: ["Sent", ["sent"]],
  in_doubt: ["In doubt", ["in_doubt"]],
  left_out: ["Suppressed or cancelled", NEVER_SENT],
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
    if (is("admin") && !workspace) return [heading(params.name), empty("Choose a workspace at the top to open its campaigns.", link("/campaigns", "All campaigns"))];
    if (!live) return [heading(params.name), h("p.quiet", "Loading …")];
    if (!live.campaign) return [heading(params.name), empty(`Campaign ${params.name} not found.`, link("/campaigns", "All campaigns"))];
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

// ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

function actions(ctx, campaign) {
  const may = ctx.is("admin", "manager", "sender");
  const manages = ctx.is("admin", "manager");
  const is = (...states) => states.includes(campaign.state);
  return [
    manages && is("draft") && button("Edit", () => change(campaign)),
    manages && is("draft") && button("Remove", () => removed(ctx, campaign), { tone: "danger" }),
    may && is("draft") && button("Launch", () => launch(campaign), { tone: "main" }),
    may && is("scheduled", "running") && button("Pause", () => pause(campaign)),
    may && is("paused", "failed") && button("Resume", () => resume(campaign), { tone: "main" }),
    may && is("scheduled", "running", "paused", "failed") && button("Cancel campaign", () => cancel(campaign), { tone: "danger" }),
  ];
}

async function launch(campaign) {
  const found = await get(api(campaign, "/forecast")).catch((error) => {
    if (error.status !== 409) throw error;
    return { refused: error.message };
  });
  await dialog(`Launch ${campaign.id}?`, {
    text: forecastText(found),
    fields: [{ name: "skip", label: "Skip recipients with missing fields", type: "checkbox", hint: "Otherwise, the launch fails if any recipient lacks a field that the template requires." }],
    yes: "Launch",
    act: async ({ skip }) => {
      const done = await post(api(campaign, "/launch"), { skip_incomplete: skip });
      tell(`Launched. ${emails(done.scheduled)} scheduled${done.is_done ? "" : " so far; an engine will schedule the rest"}.${done.left_out ? ` ${counted(done.left_out, "recipient")} skipped because of missing fields.` : ""}`);
    },
  });
}

function forecastText({ forecast, refused }) {
  if (refused) return [h("p", "No forecast is available:"), h("p.quiet", refused)];
  if (!forecast) return [h("p", "The campaign's lists are empty, so there is nothing to send.")];
  return [
    h("p", `${emails(forecast.emails)} to send. The last e-mail is expected to be sent `, h("strong", moment(forecast.ends_at)), `, in ${duration(forecast.finished_after_s)}.`),
    h("p.quiet", forecast.why),
    forecast.suggestions.length ? [h("p", "To finish sooner:"), h("ul", forecast.suggestions.map((each) => h("li", each.words)))] : null,
    h("p.quiet", "You cannot edit a launched campaign, but you can pause or cancel it."),
  ];
}

async function pause(campaign) {
  await post(api(campaign, "/pause"), {});
  tell("Campaign paused. Any sends in progress will finish.");
}

async function resume(campaign) {
  await post(api(campaign, "/resume"), {});
  tell("Campaign resumed.");
}

const cancel = (campaign) => confirmed(`Cancel ${campaign.id}?`, {
  text: `${emails(campaign.waiting)} will not be sent. You cannot resume a cancelled campaign. To stop the campaign temporarily, pause it instead.`,
  yes: "Cancel campaign",
  act: () => post(api(campaign, "/cancel"), {}),
  done: "Campaign cancelled.",
});

async function change(campaign) {
  if (await draftDialog(campaign, (id, body) => put(`/v1/campaigns/${segment(id)}`, body))) tell("Campaign saved.");
}

async function removed(ctx, campaign) {
  const isGone = await confirmed(`Remove ${campaign.id}?`, { text: "This deletes the draft. You cannot undo this.", yes: "Remove", act: () => remove(api(campaign)), done: "Draft removed." });
  if (isGone) await ctx.go("/campaigns");
}

// ── progress ──────────────────────────────────────────────────────────────────────────────────────────────

function progressPart(ctx, campaign) {
  const { states } = campaign;
  const all = campaign.sent + campaign.missed + campaign.waiting;
  const path = `/campaigns/${segment(campaign.id)}/recipients`;
  const to_ = (name, n) => (n ? link(`${path}?show=${name}`, number(n)) : "0");
  if (campaign.state === "draft") return [figures(figure("Recipients", number(campaign.recipients), "on the lists now")), columns(setup(campaign), steps(campaign))];
  return [
    all ? progress(campaign.id, { emails: all, sent: campaign.sent, missed: campaign.missed, left: campaign.waiting }) : null,
    figures(
      figure("Recipients", number(campaign.recipients), campaign.left_out ? `${number(campaign.left_out)} skipped: missing fields` : null),
      figure("Sent", number(campaign.sent), campaign.expected === null || campaign.finished_at ? null : `forecast: ${number(campaign.expected)}`),
      figure("Failed", to_("failed", sum(states, ["failed"]))),
      figure("Bounced", to_("bounced", sum(states, ["bounced"]))),
      figure("Queued", to_("waiting", sum(states, QUEUED)), states.to_follow ? `${number(states.to_follow)} waiting for the previous step` : null),
      figure("In doubt", to_("in_doubt", sum(states, ["in_doubt"]))),
      figure("Held", number(sum(states, ["parked"])), "paused prospects"),
    ),
    panel("Progress", chart(campaign.chart), expectation(campaign)),
    columns(steps(campaign), accounts(campaign)),
    setup(campaign),
  ];
}

function expectation(campaign) {
  const { forecast, revised_forecast, drift_s: drift } = campaign;
  const why = revised_forecast?.why_none || (!revised_forecast && forecast?.why_none);
  return facts([
    forecast?.done_at && ["Forecast at launch", moment(forecast.done_at)],
    campaign.done_at && [campaign.state === "completed" ? "Completed" : campaign.finished_at ? "Ended" : "Current forecast", [moment(campaign.done_at), drift === null ? null : ` · ${drifted(drift)}`]],
    why && ["No forecast", why],
    campaign.counted_at && ["Updated", [moment(campaign.counted_at), ". Large campaigns are counted about once a minute."]],
    ["Chart time zone", campaign.timezone],
  ]);
}

const drifted = (seconds) => (Math.abs(seconds) < 60 ? "on schedule" : `${duration(Math.abs(seconds))} ${seconds > 0 ? "later" : "earlier"} than forecast`);

const steps = (campaign) => panel("Steps", table("Steps", ["Step", "Template", "Delay", ">Sent", ">Failed", ">Queued"],
  campaign.steps.map((each, n) => ({ key: `step ${each.step}`, cells: [each.step, each.template, n ? duration(campaign.delays_s[n]) : "none", number(each.sent), number(each.missed), number(each.waiting)] }))));

const accounts = (campaign) => panel("Accounts", table("Accounts", ["Account", ">Sent", ">Failed", ">Queued"],
  campaign.accounts.map((each) => ({ key: `account ${each.account} ${each.is_shared}`, cells: [each.account ?? h("span.quiet", each.is_shared ? "shared accounts" : "no account"), number(each.sent), number(each.missed), number(each.waiting)] })), "No account has sent any e-mails yet."));

const setup = (campaign) => panel("Details", facts([
  ["Recipients", campaign.lists.map((name) => `list ${name}`).join(", ")],
  ["Sent through", campaign.account ? `account ${campaign.account}` : `pool ${campaign.pool}`],
  ["Random gap", campaign.gap ? `${duration(campaign.gap.min_s)} to ${duration(campaign.gap.max_s)}` : "none"],
  campaign.by_recipients_clock && ["Sending window", "in each recipient's time zone"],
  campaign.user && ["Sender", campaign.user],
  ["Created", moment(campaign.created_at)],
  campaign.starts_at && ["Not before", moment(campaign.starts_at)],
  campaign.launched_at && ["Launched", moment(campaign.launched_at)],
]));

// ── recipients ──────────────────────────────────────────────────────────────────────────────────────────

async function recipientsFrom(ctx, cursor) {
  const { show = "", address } = ctx.values;
  const [, states] = SHOWN[show] || SHOWN[""];
  ctx.state.seen = null;
  return get(api({ id: ctx.params.name }, "/recipients"), { state: states, address, cursor, limit: PAGE });
}

function recipients(ctx, campaign) {
  if (campaign.state === "draft") return h("section.panel", empty("Nothing has been sent yet. Launch the campaign first."));
  const { show = "", address = "" } = ctx.values;
  const path = `/campaigns/${segment(campaign.id)}/recipients`;
  const search = (event) => {
    event.preventDefault();
    ctx.go(path, { show, address: new FormData(event.target).get("address").trim() });
  };
  return h("section.panel", { "aria-label": "Recipients" },
    tabs("Filter recipients", Object.entries(SHOWN).map(([name, [title, states]]) => [name ? `${path}?show=${name}` : path, `${title} (${number(states ? sum(campaign.states, states) : Object.values(campaign.states).reduce((a, b) => a + b, 0))})`]), show ? `${path}?show=${show}` : path),
    h("form.filters", { role: "search", onsubmit: search },
      h("input", { type: "search", name: "address", value: address, placeholder: "Full address", "aria-label": "Full address of a recipient" }), h("button", { type: "submit" }, "Find"),
      retryButton(ctx, campaign)),
    changed(ctx, campaign),
    ctx.data && receipts(ctx, campaign));
}

function retryButton(ctx, campaign) {
  const failed = sum(campaign.states, ["failed"]);
  if (!failed || campaign.state === "cancelled" || !ctx.is("admin", "manager", "sender")) return null;
  return button("Retry failed e-mails", () => retry(ctx, campaign, failed));
}

async function retry(ctx, campaign, failed) {
  let retried = 0;
  const isDone = await confirmed(`Retry ${emails(failed)}?`, {
    text: `${emails(failed)} in ${campaign.id} failed and will be sent again. E-mails that were sent, bounced or cancelled are not affected, so no recipient gets the same e-mail twice.`,
    yes: "Retry",
    tone: "main",
    act: async () => {
      for (let answer = null; !answer?.is_done; retried += answer.retried) answer = await post(api(campaign, "/retry"), { states: ["failed"] });
    },
  });
  if (!isDone) return;
  tell(`Retrying ${emails(retried)}.`);
  await ctx.reload();
}

// The list is a snapshot; the figures above it are live.
function changed(ctx, campaign) {
  const now = JSON.stringify(campaign.states);
  if (!ctx.state.seen) ctx.state.seen = now;
  return ctx.state.seen === now ? null : h("p.quiet", { "data-key": "changed" }, "This list is out of date. ", button("Refresh", ctx.reload));
}

function receipts(ctx, campaign) {
  const { address } = ctx.values;
  const may = ctx.is("admin", "manager", "sender");
  const stop = (each) => (may && QUEUED.includes(each.state) ? button("Stop", () => stopped(ctx, campaign, each), { label: `Stop for ${each.address}` }) : "");
  const rows = ctx.data.items.map((each) => ({
    key: each.email_id,
    cells: [link(`/emails/${each.email_id}`, each.address), each.step, state(each.state), each.reason, each.account, moment(each.at), each.attempts, ...(may ? [stop(each)] : [])],
  }));
  return [
    table("Recipients", ["Recipient", "Step", "Outcome", "Reason", "Account", "Time", ">Attempts", ...(may ? [""] : [])], rows, address ? `No e-mails for ${address}. Enter the full address.` : "No recipients."),
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
    text: "This recipient will not get any more e-mails from this campaign. Other campaigns are not affected.",
    yes: "Stop",
    act: () => post(api(campaign, "/stop"), { address: each.address }),
    done: `Campaign stopped for ${each.address}.`,
  });
  if (isDone) await ctx.reload();
}

// ── preview ─────────────────────────────────────────────────────────────────────────────────────────────

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
      field({ name: "to", label: "Recipient", type: "email", value: to, placeholder: "First recipient on the lists" }),
      h("button", { type: "submit" }, "Show")),
    shownMail(ctx, campaign));
}

function shownMail({ data, values }, campaign) {
  if (!data) return null;
  if (data.refused) return h("div.notice.bad", { role: "alert" }, h("p", data.refused));
  const from = data.from && (data.from.name ? `${data.from.name} <${data.from.address}>` : data.from.address);
  return [
    facts([["From", from || badge("no account available", "wait")], ["To", data.to], ["Subject", [h("strong", data.subject), data.leaves_thread && h("p.reason", "Different subject: Gmail shows this step in a new thread."), data.is_subject_inherited && h("p.quiet", "Same subject as the first step, so this step stays in the thread.")]]]),
    data.html ? mailFrame(data.html, { key: `${campaign.id} ${data.step} ${data.to} ${values.step}`, title: `HTML of the e-mail to ${words(data.to)}` }) : null,
    data.text ? (data.html ? h("details", h("summary", "Plain text"), h("pre", { tabindex: 0 }, data.text)) : h("pre", { tabindex: 0 }, data.text)) : null,
    h("h2", "Check"),
    findings(data.checks),
  ];
}
