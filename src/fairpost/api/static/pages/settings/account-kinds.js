// What an account can be: the API tells which servers there are, how each signs in, and what has to be known for that and where one finds it.

// Of a server that an account has.
const wayOf = (server) => server.oauth ?? (server.user ? "password" : "none");

export const signInOf = ({ sign_ins: all }, server) => all.find(({ name }) => name === wayOf(server)) ?? all[0];

export function choiceOf(choices, server) {
  const isAt = ({ hosts }) => !hosts.length || hosts.some((end) => server.host.endsWith(end));
  const same = choices.filter(({ kind }) => kind === server?.kind);
  return same.find((choice) => choice.sign_ins.some((each) => each.name === wayOf(server) && isAt(each))) ?? same[0] ?? choices.at(-1);
}

export const secretsOf = ({ entries }) => new Set(entries.filter((each) => each.is_secret).map(({ name }) => name));

// `server`: what it has, or what the provider is known to have. `isKept`: its secrets stay where nothing is typed.
export const serverFields = ({ entries }, server, isKept) => entries.map((each) => ({
  name: each.name,
  label: each.label,
  type: each.type,
  options: each.options.length ? each.options : undefined,
  value: each.is_secret ? "" : server?.[lastOf(each.name)] ?? each.default ?? "",
  required: each.is_needed && !(each.is_secret && isKept),
  hint: each.is_secret && isKept ? `${each.hint} Left empty: what it has stays.` : each.hint,
  min: each.min,
  max: each.max,
  maxlength: each.maxlength,
  pattern: each.pattern && `\\s*${each.pattern}\\s*`,
  title: each.explained || null,
  accept: each.accept || null,
  placeholder: each.placeholder || null,
  autocomplete: each.options.length || each.type === "number" ? null : each.is_secret ? "new-password" : "off",
}));

// ── what the API is given ───────────────────────────────────────────────────────────────────────────────

const KEY_BYTES_MAX = 100000; // what is longer is no key file

// `kept`: the server that the account has, if what is sealed for it stays.
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

// Whether everything that is given together with secrets is as it was.
function isSame(body, { keeps_secret: isAlone }, { entries }, kept) {
  const besides = entries.filter(({ name, is_secret: isSecret }) => !isSecret && (!isAlone || depth(name) > 2));
  return entries.every(({ name, is_secret: isSecret }) => !isSecret || at(body, name) === undefined)
    && besides.every(({ name }) => (at(body, name) ?? null) === (kept[lastOf(name)] ?? null));
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

// With the group that it is in: a group is given as a whole.
function forget(body, path) {
  const [kind, ...names] = path.split(".");
  delete body[kind]?.[names[0]];
}
