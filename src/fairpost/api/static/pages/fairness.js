// Who waits, who is served, how evenly; and whom nothing goes out of, until when and why.

import { post } from "../ask.js";
import { h } from "../dom.js";
import { badge, button, chart, columns, confirmed, countdown, dialog, empty, figure, figures, heading, link, moment, panel, share, table, tell } from "../parts.js";
import { counted, duration, emails, number, percent, rate } from "../words.js";

const SHOWN_MAX = 6;
const QUEUES = { fair: "fair queue", fifo: "by arrival" };

export default {
  title: "Fairness",
  topic: () => ["fairness"],

  view(ctx) {
    const { live } = ctx;
    const operates = ctx.is("admin");
    const top = heading("Fairness", operates && [button("Hold a name", () => hold(ctx)), button("Throttle a sender", () => throttle(ctx))]);
    if (!live) return [top, h("p.quiet", "Looking …")];
    const isQuiet = !live.waiting.emails && !live.served.emails;
    return [
      top,
      live.mode && mode(live.mode),
      isQuiet
        ? panel("Nobody waits, and nobody was served", empty("Nothing waits, and nothing was sent in the last 24 hours. As soon as e-mails go out, this page shows who gets how much of the way.", link("/accounts", "See the accounts")))
        : [numbers(live), evenness(live), columns(waiting(ctx, live), served(ctx, live)), tiers(live)],
      throttled(ctx, live, operates),
      held(ctx, live, operates),
    ];
  },
};

// ── figures ─────────────────────────────────────────────────────────────────────────────────────────────

function mode({ fair_percent: fair, priority, weights, lane_shares: shares, is_scoring: isScoring }) {
  const queue = fair === 100 ? "All workspaces are in the fair queue: each has its turn, however much others have waiting."
    : fair === 0 ? "The fair queue is off: e-mails go out in the order in which they came."
      : `${fair} % of the workspaces are in the fair queue; the others are served in the order in which their e-mails came.`;
  const worth = Object.entries(priority === "lanes" ? shares : weights).map(([tier, value]) => `${tier} ${value}`).join(", ");
  const tiers = priority === "lanes" ? `Each tier has a lane, with so much of the capacity: ${worth}.` : `Tiers count by weight: ${worth}.`;
  return h("p.quiet", `${queue} ${tiers} ${isScoring ? "Senders are scored by what they send." : "Nobody is scored (FAIRPOST_ABUSE_DETECTION)."}`);
}

function numbers({ served: { users, emails: n, per_hour: perHour }, waiting, queue }) {
  return figures(
    figure("Gini", users.emails ? users.gini.toFixed(2) : "–", "0: all had the same"),
    figure("Jain", users.emails ? users.jain.toFixed(2) : "–", "1: all had the same"),
    figure("largest share", users.emails ? percent(users.largest_share) : "–", "of one sender, in 24 hours"),
    figure("served", number(n), `${counted(users.senders, "sender")} · ${rate(perHour)} an hour`),
    figure("waiting", number(waiting.emails), `of ${counted(waiting.users.senders, "sender")}`),
    queue && figure("longest wait", duration(queue.oldest_wait_s), `health × ${queue.health.toFixed(1)}`),
  );
}

const evenness = ({ chart: drawn }) => panel("How evenly, hour by hour",
  chart(drawn),
  h("p.quiet", "Gini says how unevenly e-mails were spread over the senders of an hour: 0 if all had the same number, towards 1 if one had nearly all. "
    + "Jain says how large a part of them shared evenly: 1 if all had the same, 1/n if one of n had everything. Uneven is not unfair: who sends more, gets more. Whether small senders suffer is to be seen in how long they wait."));

// ── shares ──────────────────────────────────────────────────────────────────────────────────────────────

const waiting = (ctx, { waiting: found }) => panel("Waiting now", found.emails
  ? [list(ctx, "Workspaces", found.top_workspaces), list(ctx, "Domains", found.top_domains), list(ctx, "Users", found.top_users)]
  : empty("Nothing waits."));

const served = (ctx, { served: found, served_workspaces: workspaces, served_users: users }) => panel("Served in the last 24 hours", found.emails
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
  const heads = queues.flatMap((queue) => [">mean wait", ">99 of 100 within"].map((head) => (queues.length > 1 ? `${head}, ${QUEUES[queue]}` : head)));
  const row = ([tier, { emails: n, senders }]) => ({
    key: tier,
    cells: [tier, number(n), number(senders), ...queues.flatMap((queue) => [duration(waits[queue][tier]?.mean_s), duration(waits[queue][tier]?.p99_s)])],
  });
  return panel("By tier", table("Tiers", ["tier", ">waiting", ">senders", ...heads], Object.entries(found).map(row)), h("p.quiet", "Waits are those of the last 24 hours, from due to begun."));
}

const own = (took) => took && panel("Waits", h("p", `From due to begun, in the last 24 hours, through accounts of this workspace: ${duration(took.mean_s)} on average; 99 of 100 within ${duration(took.p99_s)}.`));

// ── stopped ─────────────────────────────────────────────────────────────────────────────────────────────

const who = ({ level, workspace, name, key }) => (level === "workspace" ? `workspace ${workspace}` : `${level} ${name ?? key}`);

// What was ended here is not shown any more, though the next look may be seconds away.
const ended = (ctx) => (ctx.state.ended ||= new Set());
const mark = (each) => JSON.stringify([each.workspace, each.level, each.name ?? each.key, each.since ?? null, each.until]);

function throttled(ctx, { throttling, mode: whole }, operates) {
  const rows = throttling.latest.filter((each) => !ended(ctx).has(mark(each))).map((each) => ({
    key: mark(each),
    cells: [
      [h("strong", who(each)), !ctx.workspace && each.level !== "workspace" && [h("br"), h("small", `of ${each.workspace}`)]],
      ...(whole ? [number(each.score)] : []),
      each.reasons.length ? h("ul.why", each.reasons.map((reason) => h("li", reason))) : "–",
      [moment(each.since), whole && each.found_after_s !== null && [h("br"), h("small", `found within ${duration(each.found_after_s)}`)]],
      each.is_enforced ? [badge("stopped", "wait"), " ", countdown(each.until), each.is_by_hand && [h("br"), h("small", "by hand")]] : badge("only observed"),
      ...(operates ? [button("Lift", () => lift(ctx, each), { label: `Lift the throttle of ${who(each)}` })] : []),
    ],
  }));
  const note = throttling.throttled + throttling.observed > rows.length ? `The latest of ${number(throttling.throttled)} throttled and ${number(throttling.observed)} only observed.` : null;
  return panel("Throttled", table("Throttled senders", ["who", ...(whole ? [">score"] : []), "why", "since", "until", ...(operates ? ["what to do"] : [])], rows, "Nobody is throttled."), note && h("p.quiet", note));
}

function held(ctx, { holds }, operates) {
  const rows = holds.filter((each) => !ended(ctx).has(mark(each))).map((each) => ({
    key: mark(each),
    cells: [
      [h("strong", who(each)), !ctx.workspace && each.level !== "workspace" && [h("br"), h("small", `of ${each.workspace}`)]],
      each.reason || "no reason given",
      each.until ? countdown(each.until) : "until released",
      number(each.waiting),
      ...(operates ? [button("Release", () => release(ctx, each), { label: `Release ${who(each)}` })] : []),
    ],
  }));
  return panel("Held", table("Held names", ["who", "why", "until", ">waiting behind it", ...(operates ? ["what to do"] : [])], rows, "Nobody is held."));
}

// ── doing ───────────────────────────────────────────────────────────────────────────────────────────────

const named = ({ level, workspace, name, key }) => ({ workspace, level, name: level === "workspace" ? "" : name ?? key });

async function lift(ctx, each) {
  const isDone = await confirmed(`Lift the throttle of ${who(each)}?`, {
    text: "What waits behind it may go out. For a day no score throttles it again.",
    yes: "Lift", tone: "main",
    act: () => post("/v1/admin/senders/unthrottle", named(each)),
    done: `The throttle of ${who(each)} is lifted.`,
  });
  if (isDone) over(ctx, each);
}

async function release(ctx, each) {
  await post("/v1/admin/senders/release", named(each));
  tell(`Mail of ${who(each)} may go out again.`);
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
    { name: "level", label: "What of it", options: levels, value: "user" },
    { name: "name", label: "Name", maxlength: 200, hint: "Left empty for a whole workspace." },
    { name: "reason", label: "Why? The workspace sees this.", required: true, maxlength: 500 },
    { name: "minutes", label: "For how many minutes", type: "number", min: 1, max: 525600 },
  ];
}

const given = ({ minutes, name, level, ...same }) => ({ ...same, level, name: level === "workspace" ? "" : name.trim(), ...(minutes && { minutes }) });

const hold = ({ workspace }) => dialog("Hold a name", {
  text: "Nothing of it goes out, and nothing is lost: it waits. Without a number of minutes, until somebody releases it.",
  fields: fields(workspace, LEVELS),
  yes: "Hold", tone: "danger",
  act: async (entered) => {
    await post("/v1/admin/senders/hold", given(entered));
    tell("It is held. It is listed here within seconds.");
  },
});

const throttle = ({ workspace }) => dialog("Throttle a sender", {
  text: "Nothing of it goes out until it ends by itself; after that it has the weight of the lowest tier. Without a number of minutes, a day.",
  fields: fields(workspace, LEVELS.filter(([level]) => ["user", "workspace"].includes(level))),
  yes: "Throttle", tone: "danger",
  act: async (entered) => {
    await post("/v1/admin/senders/throttle", given(entered));
    tell("It is throttled. It is listed here within seconds.");
  },
});
