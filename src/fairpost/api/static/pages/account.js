// One account: its condition, usage, limits and recent failures.

import { remove, segment } from "../ask.js";
import { h } from "../dom.js";
import { button, chart, columns, confirmed, countdown, empty, facts, heading, headline, link as toPage, moment, panel, state, table, to } from "../parts.js";
import { number } from "../format.js";
import { bounces, changes, doing, driver, hour, isBarred, limitsButton, mailbox, next, situation, today, told, unblock } from "./account-parts.js";

const THEN = {
  suspended: "Fix the cause, verify the account, then resume it.",
  no_server: "Add a server so that the account can send.",
  resting: "The account resumes automatically.",
  paused: "The account will not send anything until you resume it.",
  limit_reached: "The account resumes automatically, or as soon as you raise the limit.",
};

export default {
  title: "Account",
  topic: ({ params }) => ["account", { name: params.name }],

  view(ctx) {
    const { live, params } = ctx;
    document.title = `${params.name} · Fairpost`;
    if (!live) return [heading(params.name), h("p.quiet", "Loading …")];
    if (!live.account) return [heading(params.name), empty("Account not found.", toPage("/accounts", "All accounts"))];
    const { now, ...rest } = live.account;
    return [
      heading(now.name, doing(ctx, now), ctx.workspace && changes(ctx) && [h("a.button", { href: to(`/settings/accounts/${segment(now.name)}`) }, "Change server"), button("Remove", () => takeAway(ctx, now), { tone: "danger" })]),
      trouble(now),
      told(ctx),
      columns(
        panel("Details", facts([
          ["State", situation(now)],
          ["Address", rest.display_name ? `${rest.display_name} <${now.address}>` : now.address],
          !ctx.workspace && ["Workspace", now.workspace || "none: shared account"],
          ["Pool", now.pool],
          ["Provider", now.provider],
          ["Server", rest.server || "none"],
          ["Next send", next(now)],
          now.patience && ["Pinned e-mails", ["Unless you resume the account, urgent e-mails that only this account can send will fail ", countdown(now.patience.urgent), ", and bulk e-mails ", countdown(now.patience.bulk), "."]],
          ["Worker", driver(now)],
          ["Sent", `${number(now.sent_total)} in total`],
          ["Errors today", number(now.day_errors)],
          ["Last used", now.last_used_at ? moment(now.last_used_at) : "never"],
          now.reading && ["Mailbox", mailbox(now.reading)],
          now.reading && now.reading.read_at && ["Last read", moment(now.reading.read_at)],
          now.reading && now.reading.unknown.length > 0 && ["Not detected", now.reading.unknown.map((each) => each.replace("_", " ")).join(", ")],
        ])),
        h("div", panel("Usage", hour(now), today(now), bounces(now)), panel("Limits", facts(rest.limits_in_words), limitsButton(ctx, live.account))),
      ),
      rest.warm_up && panel("Warm-up", chart(rest.warm_up, `Day ${rest.warm_day} of the warm-up. A day counts if e-mails were sent and few of them bounced.`)),
      rest.blocks.length > 0 && panel("Blocked workspaces", blocks(ctx, now, rest.blocks)),
      panel("Recent failures", failures(rest.failures)),
    ];
  },
};

function trouble(account) {
  return isBarred(account) && [headline(account.condition), THEN[account.situation] && h("p.next", THEN[account.situation])];
}

// Admins who have not chosen a workspace can unblock workspaces.
function blocks(ctx, account, all) {
  const one = (each) => ({
    key: each.workspace,
    cells: [each.workspace, moment(each.since), each.until ? countdown(each.until) : "until unblocked", each.because,
      !ctx.workspace && changes(ctx) && button("Unblock", () => unblock(ctx, account, each.workspace), { label: `Unblock ${each.workspace}` })],
  });
  return [
    h("p.quiet", "These workspaces cannot send through this account. The workspaces' e-mails are sent through the other accounts in their pools."),
    table("Blocked workspaces", ["Workspace", "Since", "Until", "Reason", ""], all.map(one)),
  ];
}

function failures(all) {
  const one = (each) => ({
    key: `${each.email_id} ${each.at}`,
    cells: [moment(each.at), toPage(`/emails/${each.email_id}`, each.email_id), state(each.outcome), h("span.mono", [each.code, each.reply].filter((part) => part !== null).join(" ")), each.why],
  });
  return table("Recent failures", ["Time", "E-mail", "Outcome", "Server reply", "Meaning"], all.map(one), "No failures among the latest attempts.");
}

async function takeAway({ go }, { name }) {
  const isDone = await confirmed(`Remove ${name}?`, {
    text: "This deletes the account's settings and credentials. Sent e-mails stay in the history. You cannot remove an account while any of its e-mails are claimed.",
    yes: "Remove",
    act: () => remove(`/v1/accounts/${segment(name)}`),
    done: `${name} is removed.`,
  });
  if (isDone) go("/accounts");
}
