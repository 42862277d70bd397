// The kinds of accounts. The API describes the servers, their sign-in methods, and the fields that each method needs.

// The sign-in method for an account's server.
const wayOf = (server) => server.oauth ?? (server.user ? "password" : "none");

export const signInOf = ({ sign_ins: all }, server) => all.find(({ name }) => name === wayOf(server)) ?? all[0];

export function choiceOf(choices, server) {
  const isAt = ({ hosts }) => !hosts.length || hosts.some((end) => server.host.endsWith(end));
  const same = choices.filter(({ kind }) => kind === server?.kind);
  return same.find((choice) => choice.sign_ins.some((each) => each.name === wayOf(server) && isAt(each))) ?? same[0] ?? choices.at(-1);
}

export const secretsOf = ({ entries }) => new Set(entries.filter((each) => each.is_secret).map(({ name }) => name));

// `server` is the account's server or the provider's preset. If `isKept` is true, empty secrets keep their value.
export const serverFields = ({ entries }, server, isKept) => entries.map((each) => ({
  name: each.name,
  label: each.label,
  type: each.type,
  options: each.options.length ? each.options : undefined,
  value: each.is_secret ? "" : String(server?.[lastOf(each.name)] ?? each.default ?? ""),
  required: each.is_needed && !(each.is_secret && isKept),
  hint: each.is_secret && isKept ? `${each.hint} Leave empty to keep the current value.` : each.hint,
  min: each.min,
  max: each.max,
  maxlength: each.maxlength,
  pattern: each.pattern && `\\s*${each.pattern}\\s*`,
  title: each.explained || null,
  accept: each.accept || null,
  placeholder: each.placeholder || null,
  autocomplete: each.options.length || each.type === "number" ? null : each.is_secret ? "new-password" : "off",
}));

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────

const KEY_BYTES_MAX = 100000; // a longer file is not a key file

// If the account's sealed secrets are kept, `kept` is the account's server.
export async function bodyOf(given, choice, signIn, kept) {
  const body = {};
  const secrets = secretsOf(signIn);
  for (const [path, value] of Object.entries(given)) {
    const typed = typeof value === "string" && !secrets.has(path) ? value.trim() : value;
    if (typed === null || typed === "") continue;
    put(body, path, typed instanceof File ? await typed.slice(0, KEY_BYTES_MAX).text() : typed);
  }
  body.display_name ??= null;
  const isKept = kept && isSame(body, choice, signIn, kept);
  for (const [path, value] of Object.entries(signIn.fixed)) put(body, path, value);
  if (signIn.user && !at(body, signIn.user)) put(body, signIn.user, body.address);
  if (isKept) for (const path of secrets) forget(body, path);
  if (isKept && !choice.keeps_secret) delete body[choice.kind];
  return body;
}

// Whether all fields that are submitted together with secrets are unchanged.
function isSame(body, { keeps_secret: isAlone }, { entries }, kept) {
  const besides = entries.filter(({ name, is_secret: isSecret }) => !isSecret && (!isAlone || depth(name) > 2));
  return entries.every(({ name, is_secret: isSecret }) => !isSecret || at(body, name) === undefined)
    && besides.every(({ name }) => String(at(body, name) ?? "") === String(kept[lastOf(name)] ?? ""));
}

const depth = (path) => path.split(".").length;
const lastOf = (path) => path.split(".").at(-1);
const at = (body, path) => path.split(".").reduce((part, name) => part?.[name], body);

function put(body, path, value) {
  const names = path.split(".");
  const last = names.pop();
  let part = body;
  for (const name of names) part = part[name] ??= {};
  part[last] = value;
}

// Removes the field's whole group, because a group is submitted as a whole.
function forget(body, path) {
  const [kind, ...names] = path.split(".");
  delete body[kind]?.[names[0]];
}
