// Sign-in, setup, invitation and password reset: one form with several steps.
"use strict";

const byId = (id) => document.getElementById(id);
const [form, title, words, wrong, news, go, resend, rule] = ["form", "title", "words", "wrong", "news", "go", "resend", "rule"].map(byId);
const asked = new URLSearchParams(location.search);
const token = asked.get("token") || "";
const next = here(asked.get("next") || "/");
if (token) history.replaceState(null, "", location.pathname); // the token is a secret, so keep it out of the history

// Accepts only paths of this site, parsed as the browser would parse them.
function here(path) {
  const url = URL.canParse(path, location.origin) ? new URL(path, location.origin) : null;
  return url?.origin === location.origin ? url.href : "/";
}

const STEPS = {
  setup: { title: "Create the first admin", says: "This installation has no admin yet. Create an admin, then sign in.", asks: ["address", "name", "password"], button: "Create admin", path: "/v1/auth/setup", then: "sign-in" },
  invitation: { title: "Choose a password", says: "You have been invited.", asks: ["name", "password"], button: "Set password", path: "/v1/auth/accept", then: "done" },
  reset: { title: "Choose a new password", says: "Setting a new password will sign you out everywhere. Afterwards, sign in with the new password.", asks: ["password"], button: "Set password", path: "/v1/auth/accept", then: "sign-in" },
  "sign-in": { title: "Sign in", asks: ["address", "password"], button: "Continue", path: "/v1/auth/sign-in", then: "code" },
  workspace: { title: "Choose a workspace", says: "Your password is valid for several workspaces.", asks: ["workspace"], button: "Continue", path: "/v1/auth/sign-in", then: "code" },
  enter: { title: "Sign in", says: "Signing you in …", asks: [], button: "Sign in", path: "/v1/auth/enter", then: "done" },
  code: { title: "Enter the code", says: "We sent you a code by e-mail. The code is valid for 10 minutes in this browser.", asks: ["code"], button: "Sign in", path: "/v1/auth/code", then: "done" },
};
const WITH_TOKEN = ["setup", "invitation", "reset", "enter"];
const OPTIONAL = ["workspace", "name"];
const NO_ANSWER = "Fairpost is not responding. Try again.";

let now; // the name of the current step
let isBusy = false;
let known = {}; // address and password, while asking for a workspace

function show(name, { isWrong = "", isNew = "", code = "" } = {}) {
  now = name;
  const step = STEPS[name];
  document.title = `${step.title} · Fairpost`;
  title.textContent = step.title;
  words.textContent = step.says || "";
  words.hidden = !step.says;
  go.textContent = step.button;
  form.hidden = false;
  resend.hidden = name !== "code";
  rule.hidden = name === "sign-in";
  for (const label of form.querySelectorAll("label")) {
    const isAsked = step.asks.includes(label.dataset.for);
    label.hidden = !isAsked;
    const input = label.querySelector("input, select");
    input.disabled = !isAsked; // hidden fields must not make the form invalid
    input.required = isAsked && !OPTIONAL.includes(input.name);
    if (input.name !== "workspace" && (!isAsked || input.name === "password")) input.value = "";
  }
  form.elements.password.autocomplete = name === "sign-in" ? "current-password" : "new-password";
  form.elements.password.minLength = name === "sign-in" ? 1 : 12;
  tell({ isWrong, isNew, code });
  if (step.asks.length) form.querySelector("input:enabled, select:enabled").focus();
  else if (!isWrong) form.requestSubmit(); // no input needed: the link is enough
}

function tell({ isWrong = "", isNew = "", code = "" }) {
  wrong.textContent = isWrong;
  wrong.dataset.code = code;
  news.textContent = isNew;
}

// One request at a time, so a double click counts once.
async function busily(work) {
  if (isBusy) return;
  isBusy = true;
  for (const button of [go, resend]) button.setAttribute("aria-disabled", "true");
  try {
    await work();
  } catch {
    tell({ isWrong: NO_ANSWER, code: "unreachable" });
  } finally {
    isBusy = false;
    for (const button of [go, resend]) button.removeAttribute("aria-disabled");
  }
}

async function ask(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
  return answer.json();
}

function given() {
  const body = WITH_TOKEN.includes(now) ? { token } : now === "workspace" ? { ...known } : {};
  for (const name of STEPS[now].asks) {
    const value = form.elements[name].value;
    if (value || name === "workspace") body[name] = name === "password" ? value : value.trim();
  }
  return body;
}

function refused(error) {
  const details = error.details || {};
  if (error.code === "workspace_needed") return choose(details.workspaces);
  if (now === "workspace") return show("sign-in", { isWrong: error.message, code: error.code });
  const isOver = now === "code" && (details.kind === "expired" || details.tries_left === 0);
  if (isOver || now === "enter") return show("sign-in", { isWrong: error.message, code: error.code });
  tell({ isWrong: error.message, code: error.code });
  const input = form.elements[{ "sign-in": "password" }[now] || STEPS[now].asks.at(-1)];
  input.focus();
  input.select();
}

function choose(workspaces) {
  known = given();
  form.elements.workspace.replaceChildren(...workspaces.map((name) => new Option(name || "All workspaces, as an admin", name)));
  show("workspace");
}

// Shows whether the code can be sent by e-mail, and what to do if not.
function sayWhere({ is_on_its_way: isOnItsWay, then }) {
  if (!isOnItsWay) words.textContent = `The code cannot be sent by e-mail right now. To get a code that is valid for 10 minutes in this browser, run this on the server: ${then}`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  busily(async () => {
    tell({});
    const { path, then } = STEPS[now];
    const told = await ask(path, given());
    if (!told.success) return refused(told.error);
    known = {};
    if (then === "done") return location.assign(next);
    show(then, { isNew: then === "sign-in" ? "Your password has been set." : "" });
    if (then === "code") sayWhere(told.data);
  });
});

resend.addEventListener("click", () => busily(async () => {
  const told = await ask("/v1/auth/resend", {});
  if (!told.success) return refused(told.error);
  tell({ isNew: told.data.is_on_its_way ? "We sent another code. The previous code no longer works." : "The previous code no longer works." });
  sayWhere(told.data);
  form.elements.code.value = "";
  form.elements.code.focus();
}));

const page = location.pathname.slice(1);
const needsLink = WITH_TOKEN.includes(page) && !token;
show(needsLink || !(page in STEPS) || page === "code" ? "sign-in" : page, { isWrong: needsLink ? "This link is incomplete. Open the full link that you received." : "", code: needsLink ? "link_missing" : "" });
