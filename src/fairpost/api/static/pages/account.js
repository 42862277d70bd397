// One account: whether it may send, what it has used, and what servers told it last.

import { remove, segment } from "../ask.js";
import { h } from "../dom.js";
import { button, chart, columns, confirmed, countdown, empty, facts, heading, headline, link as toPage, moment, panel, state, table, to } from "../parts.js";
import { number } from "../words.js";
import { bounces, changes, doing, driver, hour, isBarred, limitsButton, next, situation, today, told, unblock } from "./account-parts.js";

const THEN = {
  suspended: "Put right what the reason says, verify it, and resume it.",
  no_server: "It has no server, so it cannot send. Give it one.",
  resting: "It goes on by itself.",
  paused: "Nothing goes out through it until somebody resumes it.",
  limit_reached: "It goes on by itself, or when the limit is higher.",
};

export default {
  title: "Account",
  topic: ({ params }) => ["account", { name: params.name }],

  view(ctx) {
    const { live, params } = ctx;
    document.title = `${params.name} · Fairpost`;
    if (!live) return [heading(params.name), h("p.quiet", "Looking …")];
    if (!live.account) return [heading(params.name), empty("There is no account of this name.", toPage("/accounts", "To the accounts"))];
    const { now, ...rest } = live.account;
    return [
      heading(now.name, doing(ctx, now), ctx.workspace && changes(ctx) && [h("a.button", { href: to(`/settings/accounts/${segment(now.name)}`) }, "Change its server"), button("Remove", () => takeAway(ctx, now), { tone: "danger" })]),
      trouble(now),
      told(ctx),
      columns(
        panel("The account", facts([
          ["state", situation(now)],
          ["address", rest.display_name ? `${rest.display_name} <${now.address}>` : now.address],
          !ctx.workspace && ["workspace", now.workspace || "the operator’s own"],
          ["pool", now.pool],
          ["provider", now.provider],
          ["server", rest.server || "none"],
          ["may send", next(now)],
          now.patience && ["pinned mail", ["urgent e-mails fail ", countdown(now.patience.urgent), ", bulk e-mails ", countdown(now.patience.bulk), ", unless it is resumed"]],
          ["worker", driver(now)],
          ["sent", `${number(now.sent_total)} since it was added`],
          ["errors today", number(now.day_errors)],
          ["last used", now.last_used_at ? moment(now.last_used_at) : "never"],
        ])),
        h("div", panel("Used", hour(now), today(now), bounces(now)), panel("Limits", facts(rest.limits_in_words), limitsButton(ctx, live.account))),
      ),
      rest.warm_up && panel("Warm-up", chart(rest.warm_up, `Day ${rest.warm_day}. A day counts when something was sent and little of it bounced.`)),
      rest.blocks.length > 0 && panel("Blocked here", blocks(ctx, now, rest.blocks)),
      panel("What went wrong last", failures(rest.failures)),
    ];
  },
};

function trouble(account) {
  return isBarred(account) && [headline(account.condition), THEN[account.situation] && h("p.next", THEN[account.situation])];
}

// Whoever looks at all workspaces may let one use the account again.
function blocks(ctx, account, all) {
  const one = (each) => ({
    key: each.workspace,
    cells: [each.workspace, moment(each.since), each.until ? countdown(each.until) : "unblocked", each.because,
      !ctx.workspace && changes(ctx) && button("Unblock", () => unblock(ctx, account, each.workspace), { label: `Unblock ${each.workspace}` })],
  });
  return [
    h("p.quiet", "These workspaces send nothing through this account. Everybody else does, and they use the other accounts of their pools."),
    table("Who is blocked on this account", ["workspace", "since", "until", "because", ""], all.map(one)),
  ];
}

function failures(all) {
  const one = (each) => ({
    key: `${each.email_id} ${each.at}`,
    cells: [moment(each.at), toPage(`/emails/${each.email_id}`, each.email_id), state(each.outcome), h("span.mono", [each.code, each.reply].filter((part) => part !== null).join(" ")), each.why],
  });
  return table("The last failures", ["when", "e-mail", "outcome", "the server said", "that means"], all.map(one), "Nothing, among the newest attempts.");
}

async function takeAway({ go }, { name }) {
  const isDone = await confirmed(`Remove ${name}?`, {
    text: "Its settings and its password are deleted. What it sent stays in the history. While it has e-mails in hand, it cannot be removed.",
    yes: "Remove",
    act: () => remove(`/v1/accounts/${segment(name)}`),
    done: `${name} is removed.`,
  });
  if (isDone) go("/accounts");
}
