// Each sender's share of queued and sent e-mails; throttles and holds.

import { post } from "../ask.js";
import { h } from "../dom.js";
import { badge, button, chart, columns, confirmed, countdown, dialog, empty, figure, figures, heading, link, moment, panel, share, table, tell } from "../parts.js";
import { counted, duration, emails, number, percent, rate } from "../format.js";

const SHOWN_MAX = 6;
const QUEUES = { fair: "fair queue", fifo: "first come, first served" };

export default {
  title: "Fairness",
  topic: () => ["fairness"],

  view(ctx) {
    const { live } = ctx;
    const operates = ctx.is("admin");
    const top = heading("Fairness", operates && [button("Hold a sender", () => hold(ctx)), button("Throttle a sender", () => throttle(ctx))]);
    if (!live) return [top, h("p.quiet", "Loading …")];
    const isQuiet = !live.waiting.emails && !live.served.emails;
    return [
      top,
      live.mode && mode(live.mode),
      isQuiet
        ? panel("No activity", empty("Nothing is queued, and nothing was sent in the last 24 hours. Once e-mails are sent, this page shows each sender's share.", link("/accounts", "View accounts")))
        : [numbers(live), evenness(live), columns(waiting(ctx, live), served(ctx, live)), tiers(live)],
      throttled(ctx, live, operates),
      held(ctx, live, operates),
    ];
  },
};

// ── figures ─────────────────────────────────────────────────────────────────────────────────────────────

function mode({ fair_percent: fair, priority, weights, lane_shares: shares, is_scoring: isScoring }) {
  const queue = fair === 100 ? "All workspaces share the fair queue: each workspace gets its turn, however many e-mails the others have queued."
    : fair === 0 ? "The fair queue is off: e-mails are sent in order of arrival."
      : `${fair}% of the workspaces share the fair queue. E-mails from the others are sent in order of arrival.`;
  const worth = Object.entries(priority === "lanes" ? shares : weights).map(([tier, value]) => `${tier} ${value}`).join(", ");
  const tiers = priority === "lanes" ? `Share of the capacity for each tier: ${worth}.` : `Weight of each tier: ${worth}.`;
  return h("p.quiet", `${queue} ${tiers} ${isScoring ? "Abuse detection is on." : "Abuse detection is off (FAIRPOST_ABUSE_DETECTION)."}`);
}

function numbers({ served: { users, emails: n, per_hour: perHour }, waiting, queue }) {
  return figures(
    figure("Gini", users.emails ? users.gini.toFixed(2) : "–", "0 means even"),
    figure("Jain", users.emails ? users.jain.toFixed(2) : "–", "1 means even"),
    figure("Largest share", users.emails ? percent(users.largest_share) : "–", "one sender, last 24 hours"),
    figure("Sent", number(n), `${counted(users.senders, "sender")} · ${rate(perHour)} per hour`),
    figure("Queued", number(waiting.emails), counted(waiting.users.senders, "sender")),
    queue && figure("Longest wait", duration(queue.oldest_wait_s), `queue health × ${queue.health.toFixed(1)}`),
  );
}

const evenness = ({ chart: drawn }) => panel("Distribution by hour",
  chart(drawn),
  h("p.quiet", "The Gini coefficient is 0 if all senders sent the same number of e-mails in an hour, and close to 1 if one sender sent nearly all of them. "
    + "Jain's index is 1 if all senders sent the same number, and 1/n if one of n senders sent everything. An uneven distribution is not necessarily unfair: senders with more mail send more. To see whether small senders are delayed, look at their waiting times."));

// ── shares ──────────────────────────────────────────────────────────────────────────────────────────────

const waiting = (ctx, { waiting: found }) => panel("Queued now", found.emails
  ? [list(ctx, "Workspaces", found.top_workspaces), list(ctx, "Domains", found.top_domains), list(ctx, "Users", found.top_users)]
  : empty("The queue is empty."));

const served = (ctx, { served: found, served_workspaces: workspaces, served_users: users }) => panel("Sent in the last 24 hours", found.emails
  ? [h("p", `${emails(found.emails)}: ${number(found.sent)} sent, ${number(found.bounced)} bounced, ${number(found.rejected)} rejected.`), list(ctx, "Workspaces", workspaces), list(ctx, "Users", users)]
  : empty("Nothing was sent."));

function list({ workspace }, title, portions) {
  if (!portions.length) return null;
  const called = (each) => (title === "Workspaces" ? each.workspace : `${each.name || (title === "Users" ? "no user" : "no domain")}${workspace ? "" : ` · ${each.workspace}`}`);
  const bars = portions.map((each) => share(called(each), each.share, number(each.emails)));
  return [
    h("h3", title),
    bars.slice(0, SHOWN_MAX),
    bars.length > SHOWN_MAX ? h("details.more", { "data-key": `more ${title}` }, h("summary", `${bars.length - SHOWN_MAX} more`), bars.slice(SHOWN_MAX)) : null,
  ];
}

function tiers({ waiting: { tiers: found }, waits, mode: whole }) {
  if (!whole) return own(waits.fair?.all);
  const queues = Object.keys(waits);
  const heads = queues.flatMap((queue) => [">Mean wait", ">p99 wait"].map((head) => (queues.length > 1 ? `${head}, ${QUEUES[queue]}` : head)));
  const row = ([tier, { emails: n, senders }]) => ({
    key: tier,
    cells: [tier, number(n), number(senders), ...queues.flatMap((queue) => [duration(waits[queue][tier]?.mean_s), duration(waits[queue][tier]?.p99_s)])],
  });
  return panel("By tier", table("Tiers", ["Tier", ">Queued", ">Senders", ...heads], Object.entries(found).map(row)), h("p.quiet", "Waiting times over the last 24 hours, from the due time until sending starts."));
}

const own = (took) => took && panel("Waiting times", h("p", `${duration(took.mean_s)} on average, p99 ${duration(took.p99_s)}. Measured over the last 24 hours for e-mails sent through this workspace's accounts, from the due time until sending starts.`));

// ── throttles and holds ─────────────────────────────────────────────────────────────────────────────────

const who = ({ level, workspace, name, key }) => (level === "workspace" ? `workspace ${workspace}` : `${level} ${name ?? key}`);

// Throttles and holds that you have just ended here are hidden at once, because the next update may be seconds away.
const ended = (ctx) => (ctx.state.ended ||= new Set());
const mark = (each) => JSON.stringify([each.workspace, each.level, each.name ?? each.key, each.since ?? null, each.until]);

function throttled(ctx, { throttling, mode: whole }, operates) {
  const rows = throttling.latest.filter((each) => !ended(ctx).has(mark(each))).map((each) => ({
    key: mark(each),
    cells: [
      [h("strong", who(each)), !ctx.workspace && each.level !== "workspace" && [h("br"), h("small", `in ${each.workspace}`)]],
      ...(whole ? [number(each.score)] : []),
      each.reasons.length ? h("ul.why", each.reasons.map((reason) => h("li", reason))) : "–",
      [moment(each.since), whole && each.found_after_s !== null && [h("br"), h("small", `detected after ${duration(each.found_after_s)}`)]],
      each.is_enforced ? [badge("throttled", "wait"), " ", countdown(each.until), each.is_by_hand && [h("br"), h("small", "manual")]] : badge("observed only"),
      ...(operates ? [button("Unthrottle", () => lift(ctx, each), { label: `Unthrottle ${who(each)}` })] : []),
    ],
  }));
  const note = throttling.throttled + throttling.observed > rows.length ? `Showing the most recent of ${number(throttling.throttled)} throttled and ${number(throttling.observed)} observed senders.` : null;
  return panel("Throttled", table("Throttled senders", ["Sender", ...(whole ? [">Score"] : []), "Reason", "Since", "Until", ...(operates ? ["Actions"] : [])], rows, "No throttled senders."), note && h("p.quiet", note));
}

function held(ctx, { holds }, operates) {
  const rows = holds.filter((each) => !ended(ctx).has(mark(each))).map((each) => ({
    key: mark(each),
    cells: [
      [h("strong", who(each)), !ctx.workspace && each.level !== "workspace" && [h("br"), h("small", `in ${each.workspace}`)]],
      each.reason || "no reason given",
      each.until ? countdown(each.until) : "until released",
      number(each.waiting),
      ...(operates ? [button("Release", () => release(ctx, each), { label: `Release ${who(each)}` })] : []),
    ],
  }));
  return panel("Held", table("Held senders", ["Sender", "Reason", "Until", ">Queued", ...(operates ? ["Actions"] : [])], rows, "No held senders."));
}

// ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

const named = ({ level, workspace, name, key }) => ({ workspace, level, name: level === "workspace" ? "" : name ?? key });

async function lift(ctx, each) {
  const isDone = await confirmed(`Unthrottle ${who(each)}?`, {
    text: "Sending will resume for this sender's queued e-mails. For one day, abuse detection will not throttle the sender.",
    yes: "Unthrottle", tone: "main",
    act: () => post("/v1/admin/senders/unthrottle", named(each)),
    done: `Unthrottled ${who(each)}.`,
  });
  if (isDone) over(ctx, each);
}

async function release(ctx, each) {
  await post("/v1/admin/senders/release", named(each));
  tell(`Released ${who(each)}.`);
  over(ctx, each);
}

function over(ctx, each) {
  ended(ctx).add(mark(each));
  ctx.show();
}

const LEVELS = [["user", "a user"], ["domain", "a domain"], ["stream", "a stream"], ["workspace", "the whole workspace"]];

function fields(workspace, levels) {
  return [
    { name: "workspace", label: "Workspace", value: workspace || "", required: true, maxlength: 200 },
    { name: "level", label: "What to hold", options: levels, value: "user" },
    { name: "name", label: "Name", maxlength: 200, hint: "Leave empty to choose the whole workspace." },
    { name: "reason", label: "Reason", hint: "Visible to members of the workspace.", required: true, maxlength: 500 },
    { name: "minutes", label: "Minutes", type: "number", min: 1, max: 525600 },
  ];
}

const given = ({ minutes, name, level, ...same }) => ({ ...same, level, name: level === "workspace" ? "" : name.trim(), ...(minutes && { minutes }) });

const hold = ({ workspace }) => dialog("Hold a sender", {
  text: "The sender's e-mails will stay queued until you release the hold, or for the number of minutes that you enter.",
  fields: fields(workspace, LEVELS),
  yes: "Hold", tone: "danger",
  act: async (entered) => {
    await post("/v1/admin/senders/hold", given(entered));
    tell("Held. The list will be updated within seconds.");
  },
});

const throttle = ({ workspace }) => dialog("Throttle a sender", {
  text: "The sender's e-mails will stay queued for the number of minutes that you enter, or for one day if you leave the field empty. Afterwards, the sender will have the weight of the lowest tier.",
  fields: fields(workspace, LEVELS.filter(([level]) => ["user", "workspace"].includes(level))),
  yes: "Throttle", tone: "danger",
  act: async (entered) => {
    await post("/v1/admin/senders/throttle", given(entered));
    tell("Throttled. The list will be updated within seconds.");
  },
});
