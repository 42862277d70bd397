// The workspace's sending window and daily quota for campaigns, and a forecast for the next days.

import { get, put } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { columns, countdown, facts, meter, panel, table, tell } from "../../parts.js";
import { number } from "../../format.js";

const PATH = "/v1/schedule";
const DAYS = [["1", "Monday"], ["2", "Tuesday"], ["3", "Wednesday"], ["4", "Thursday"], ["5", "Friday"], ["6", "Saturday"], ["7", "Sunday"]];
const EVERY_DAY = { days: [1, 2, 3, 4, 5, 6, 7], start: "00:00", end: "00:00", holidays: [] };

export default {
  async load() {
    const [schedule, quota] = await Promise.all([get(PATH), get(`${PATH}/quota`, { days: 14 })]);
    return { schedule, quota };
  },

  view(ctx) {
    const { schedule, quota } = ctx.data;
    return [
      h(`div.headline.${schedule.is_open ? "good" : "wait"}`, { role: "status" }, h("p", now(schedule))),
      columns(
        panel("Sending window and quota", ctx.is("manager", "admin") ? form(`schedule ${ctx.workspace}`, fieldsOf(schedule), { yes: "Save", isShort: true, act: (entered) => save(ctx, entered) }) : said(schedule)),
        panel("Next 14 days", quota.daily_max ? meter("Today", quota.days[0].used, quota.days[0].allowed) : null, days(quota)),
      ),
    ];
  },
};

function now(schedule) {
  if (!schedule.is_set) return "No schedule is set. Campaigns send at any time, up to the accounts' limits.";
  if (!schedule.is_open) return schedule.opens_at ? ["The sending window is closed. It opens ", countdown(schedule.opens_at), "."] : "The sending window is closed and will not open within a year.";
  return schedule.closes_at ? ["The sending window is open. It closes ", countdown(schedule.closes_at), "."] : "The sending window is always open.";
}

function fieldsOf({ timezone, window, quota }) {
  const { days: open, start, end, holidays } = window ?? EVERY_DAY;
  return [
    { name: "timezone", label: "Time zone", value: timezone, required: true, maxlength: 100, hint: "For example Europe/Berlin." },
    { name: "window.days", label: "Days", type: "choices", options: DAYS, value: open.map(String) },
    { name: "window.start", label: "From", type: "time", value: start, required: true },
    { name: "window.end", label: "To", type: "time", value: end, required: true, hint: "If both times are the same, the window is open all day. If the end time is earlier than the start time, the window ends the next day." },
    { name: "window.holidays", label: "Holidays", type: "textarea", rows: 3, value: holidays.join("\n"), hint: "Dates on which no e-mails are sent, one per line. For example 2027-12-25." },
    { name: "quota.daily_max", label: "E-mails per day", type: "number", min: 1, value: quota.daily_max ?? "", hint: "The maximum for all campaigns together. Leave empty for no quota." },
    { name: "quota.ramp_up_days", label: "Ramp-up in days", type: "number", min: 0, value: quota.ramp_up_days, hint: "Number of days over which the quota grows evenly to its full value. A change restarts the ramp-up." },
    { name: "quota.ramp_up_percents", label: "Or percentages for the first few days", value: quota.ramp_up_percents.join(", "), hint: "For example 10, 20, 50." },
  ];
}

async function save(ctx, entered) {
  const listed = (text) => text.split(/[\s,;]+/).filter(Boolean);
  await put(PATH, {
    timezone: entered.timezone.trim(),
    window: { days: entered["window.days"].map(Number), start: entered["window.start"], end: entered["window.end"], holidays: listed(entered["window.holidays"]) },
    quota: { daily_max: entered["quota.daily_max"], ramp_up_days: entered["quota.ramp_up_days"] ?? 0, ramp_up_percents: listed(entered["quota.ramp_up_percents"]).map(Number) },
  });
  tell("Schedule saved.");
  await ctx.reload();
}

function said({ timezone, window, quota }) {
  const named = window && window.days.map((day) => DAYS[day - 1][1]).join(", ");
  return facts([
    ["Time zone", timezone],
    ["Days", window ? named : "every day"],
    ["Hours", !window || window.start === window.end ? "all day" : `${window.start} to ${window.end}`],
    window?.holidays.length && ["Holidays", window.holidays.join(", ")],
    ["E-mails per day", quota.daily_max === null ? "no quota" : number(quota.daily_max)],
    quota.ramp_up_days > 0 && ["Ramp-up", `${quota.ramp_up_days} days`],
    quota.ramp_up_percents.length > 0 && ["Ramp-up", `${quota.ramp_up_percents.join(", ")} percent`],
  ]);
}

function days({ timezone, days: all }) {
  const clock = new Intl.DateTimeFormat("en-GB", { timeZone: timezone, hour: "2-digit", minute: "2-digit" });
  const name = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", weekday: "short", day: "numeric", month: "short" });
  const open = (day) => (day.open === null ? "all day" : day.open.map((each) => `${clock.format(new Date(each.opens_at))}–${clock.format(new Date(each.closes_at))}`).join(", ") || h("span.quiet", "closed"));
  const rows = all.map((day, n) => ({ key: day.day, cells: [name.format(new Date(`${day.day}T00:00:00Z`)), open(day), day.allowed === null ? "no quota" : number(day.allowed), n === 0 ? number(day.used) : ""] }));
  return [h("p.quiet", `Time zone: ${timezone}.`), table("Next 14 days", ["Day", "Open", ">Quota", ">Used"], rows)];
}
