// Requests to the API, with the current session and workspace.

const SAFE = ["GET", "HEAD"];
export const SERVICE = "fairpost"; // the service's own workspace, which cannot be opened because its e-mails contain sign-in links and codes
let csrf = "";

class Refusal extends Error {
  constructor(status, fault) {
    super(fault.message);
    Object.assign(this, { status, code: fault.code, details: fault.details });
  }
}

const SELF = "/v1/auth/"; // paths about the session itself, which belong to no workspace

export const chosen = () => new URLSearchParams(location.search).get("workspace");
export const remember = (session) => (csrf = session.csrf_token);

// `{id: 5, state: ["a", "b"], q: null}` → "?id=5&state=a&state=b"
export function query(values) {
  const given = Object.entries(values).flatMap(([name, value]) => [value].flat().filter((v) => v !== null && v !== undefined && v !== "").map((v) => [name, v]));
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

// `seen` is the version that a change applies to. Throws Refusal with the API's message. If the session has ended, opens the sign-in page.
export async function ask(path, { method = "GET", body, workspace = path.startsWith(SELF) ? null : chosen(), signal, raw = false, seen } = {}) {
  const headers = {};
  if (workspace) headers["X-Workspace"] = workspace;
  if (!SAFE.includes(method)) headers["X-CSRF-Token"] = csrf;
  if (seen) headers["If-Match"] = seen;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer, told;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", signal });
    if (raw && answer.ok) return await answer.text();
    told = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, { code: "unreachable", message: "Fairpost is not responding and may be restarting. Try again.", details: null });
  }
  if (told.success) return told.data;
  if (told.error.code === "unauthenticated") signIn();
  throw new Refusal(answer.status, told.error);
}

export function signIn() {
  location.assign(`/sign-in${query({ next: location.pathname + location.search })}`);
}

export const get = (path, values = {}, options = {}) => ask(path + query(values), options);
export const post = (path, body, options = {}) => ask(path, { ...options, method: "POST", body });
export const put = (path, body, options = {}) => ask(path, { ...options, method: "PUT", body });
export const patch = (path, body, options = {}) => ask(path, { ...options, method: "PATCH", body });
export const remove = (path, options = {}) => ask(path, { ...options, method: "DELETE" });
export const segment = encodeURIComponent;
