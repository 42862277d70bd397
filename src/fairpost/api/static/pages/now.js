// What is happening now, and if nothing is sent: why, and until when.

import { post } from "../ask.js";
import { h } from "../dom.js";
import { button, chart, columns, confirmed, countdown, figure, figures, heading, headline, link, panel, tell } from "../parts.js";
import { duration, number, rate } from "../words.js";

// Where to put right what keeps mail from going out.
// Where a condition is looked after, by what its code begins with.
const PLACES = [
  ["account.", "/accounts", "See the accounts"],
  ["pool.", "/accounts", "See the accounts"],
  ["hold.", "/fairness", "See who is held, and why"],
  ["throttle.", "/fairness", "See who is held, and why"],
  ["window.", "/campaigns", "See the campaigns"],
  ["mail.scheduled", "/emails", "See what is scheduled"],
  ["mail.undecided", "/emails?state=in_doubt", "Decide"],
];

export default {
  title: "Now",
  topic: () => ["now"],

  view({ live, is, workspace }) {
    if (!live) return [heading("Now"), h("p.quiet", "Looking …")];
    const isEverything = is("admin") && !workspace;
    const isPaused = live.headline.code.startsWith("everything.");
    return [
      heading("Now", isEverything && (isPaused ? button("Resume everything", resume, { tone: "main" }) : button("Pause everything", pause, { tone: "danger" }))),
      headline(live.headline),
      figures(
        figure("sent a second", rate(live.per_s)),
        figure("waiting", number(live.waiting), Object.entries(live.classes).map(([name, n]) => `${number(n)} ${name}`).join(" · ")),
        figure("in hand", number(live.claimed + live.sending), `${number(live.sending)} being sent`),
        figure("in doubt", live.in_doubt ? link("/emails?state=in_doubt", number(live.in_doubt)) : "0", live.undecided ? `${number(live.undecided)} for you to decide` : null),
        figure("longest wait", duration(live.oldest_wait_s), live.next_due_at ? ["next due ", countdown(live.next_due_at)] : null),
        live.health !== null && figure("health", `× ${live.health.toFixed(1)}`, live.health >= 1 ? "the queue is well" : "the queue is long or late"),
        figure("accounts", `${number(live.accounts.driven)} of ${number(live.accounts.all)}`, `at work · ${number(live.accounts.free)} may send now`),
      ),
      reasons(live),
      columns(panel("Sent each second", chart(live.charts.pace)), panel("Waiting", chart(live.charts.waiting))),
      panel("The last 24 hours", chart(live.charts.hours)),
    ];
  },
};

function reasons({ reasons: all }) {
  if (!all.length) return null;
  const one = (reason) => {
    const place = PLACES.find(([begins]) => reason.code.startsWith(begins))?.slice(1);
    return h("li", { "data-key": reason.code + reason.text }, h("p", reason.text, reason.until && [" (", countdown(reason.until), ")"]),
      h("p.quiet", place ? link(...place) : null, place && reason.then ? " · " : null, reason.then && h("code", reason.then)));
  };
  return panel("Why not everything goes out", h("ul.reasons", all.map(one)));
}

const pause = () => confirmed("Pause everything?", {
  text: "Nothing more is begun, by any account, until somebody resumes it. What is being sent at this moment is finished.",
  yes: "Pause everything",
  act: () => post("/v1/admin/pause", { reason: "paused on the dashboard" }),
  done: "Everything is paused.",
});

async function resume() {
  await post("/v1/admin/resume", {});
  tell("Everything goes on.");
}
