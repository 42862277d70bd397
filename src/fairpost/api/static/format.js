// Formats numbers, times and durations.

const NUMBER = new Intl.NumberFormat("en");
const EN_DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const SHORT_DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

export const number = (n) => (n === null || n === undefined ? "–" : NUMBER.format(n));
export const counted = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
export const emails = (n) => counted(n, "e-mail");
export const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)}%`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond === 0) return "0";
  return perSecond >= 10 ? number(Math.round(perSecond)) : perSecond.toFixed(1);
}

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB"];
  let power = 0;
  while (n >= 1000 && power < units.length - 1) [n, power] = [n / 1000, power + 1];
  return `${power === 0 ? n : n.toFixed(n >= 100 ? 0 : 1)} ${units[power]}`;
}

// "3 min 20 s": the two largest units.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  return parts.slice(first, first + 2).filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

export const whole = (moment) => (moment ? EN_DAY.format(new Date(moment)) : "–");

// Only the time for today, and the date and time for other days.
export function at(moment) {
  if (!moment) return "–";
  const date = new Date(moment);
  return date.toDateString() === new Date().toDateString() ? TIME.format(date) : SHORT_DAY.format(date);
}

export function ago(moment, now = Date.now()) {
  const seconds = (now - new Date(moment)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
}

// A subject with readable placeholders: "Hello ‹first_name›".
export const readable = (subject) => subject.replace(/\{\{\s*([\w.]+)[^}]*\}\}/g, "‹$1›");

export const words = (name) => String(name).replaceAll("_", " ");

// A JSON value as text; strings without quotes.
export const told = (value) => (typeof value === "string" ? value : JSON.stringify(value));
