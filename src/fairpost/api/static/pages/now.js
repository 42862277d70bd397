// Shows what is happening now and, if something is blocked, why and until when.

import { post } from "../ask.js";
import { h } from "../dom.js";
import { button, chart, columns, confirmed, countdown, figure, figures, heading, headline, link, minorFigures, panel, tell } from "../parts.js";
import { duration, number, rate } from "../format.js";

// The page on which to fix a condition, by the start of the condition code.
const PLACES = [
  ["account.", "/accounts", "View accounts"],
  ["pool.", "/accounts", "View accounts"],
  ["hold.", "/fairness", "View holds and throttles"],
  ["throttle.", "/fairness", "View holds and throttles"],
  ["window.", "/campaigns", "View campaigns"],
  ["mail.scheduled", "/emails", "View scheduled e-mails"],
  ["mail.undecided", "/emails?state=in_doubt", "Decide"],
];

export default {
  title: "Now",
  topic: () => ["now"],

  view({ live, is, workspace }) {
    if (!live) return [heading("Now"), h("p.quiet", "Loading …")];
    const isEverything = is("admin") && !workspace;
    const isPaused = live.headline.code.startsWith("everything.");
    return [
      heading("Now", isEverything && (isPaused ? button("Resume everything", resume, { tone: "main" }) : button("Pause everything", pause, { tone: "danger" }))),
      headline(live.headline),
      reasons(live),
      numbers(live),
      columns(panel("Sent per second", chart(live.charts.pace)), panel("Queued", chart(live.charts.waiting))),
      panel("Last 24 hours", chart(live.charts.hours)),
    ];
  },
};

function numbers(live) {
  const undecided = live.undecided ? link("/emails?state=in_doubt", `${number(live.undecided)} to decide`) : null;
  return [
    figures(
      figure("Sent per second", rate(live.per_s)),
      figure("Queued", number(live.waiting), Object.entries(live.classes).map(([name, n]) => `${number(n)} ${name}`).join(" · ")),
      figure("In doubt", number(live.in_doubt), undecided, live.undecided ? "bad" : null),
      figure("Accounts ready", `${number(live.accounts.free)} of ${number(live.accounts.all)}`, `${number(live.accounts.driven)} with a worker`),
    ),
    minorFigures(
      figure("Claimed", number(live.claimed + live.sending), `${number(live.sending)} being sent`),
      figure("Longest wait", duration(live.oldest_wait_s), live.next_due_at ? ["next due ", countdown(live.next_due_at)] : null),
      live.health !== null && figure("Queue health", `× ${live.health.toFixed(1)}`, live.health >= 1 ? "good" : "falling behind"),
    ),
  ];
}

function reasons({ reasons: all }) {
  if (!all.length) return null;
  const one = (reason) => {
    const place = PLACES.find(([begins]) => reason.code.startsWith(begins))?.slice(1);
    return h("li", { "data-key": reason.code + reason.text }, h("p", reason.text),
      h("p.quiet", [place && link(...place), reason.then && h("code", reason.then), reason.until && ["ends ", countdown(reason.until)]].filter(Boolean).flatMap((part, n) => (n ? [" · ", part] : [part]))));
  };
  return panel("Needs attention", h("ul.reasons", all.map(one)));
}

const pause = () => confirmed("Pause everything?", {
  text: "No e-mails will be sent until you resume sending. Any sends in progress will finish.",
  yes: "Pause everything",
  act: () => post("/v1/admin/pause", { reason: "Paused from the dashboard" }),
  done: "Everything is paused.",
});

async function resume() {
  await post("/v1/admin/resume", {});
  tell("Sending has been resumed.");
}
