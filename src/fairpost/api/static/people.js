// The pages of people who sign in: one form, and what is asked next.
"use strict";

const byId = (id) => document.getElementById(id);
const [form, title, words, wrong, news, go, resend, rule] = ["form", "title", "words", "wrong", "news", "go", "resend", "rule"].map(byId);
const asked = new URLSearchParams(location.search);
const token = asked.get("token") || "";
const next = here(asked.get("next") || "/");
if (token) history.replaceState(null, "", location.pathname); // it opens something: not for the history

// A page of ours, and no other's: read as the browser reads it, which overlooks a good deal in an address.
function here(path) {
  const url = URL.canParse(path, location.origin) ? new URL(path, location.origin) : null;
  return url?.origin === location.origin ? url.href : "/";
}

const STEPS = {
  setup: { title: "Become the first admin", says: "This Fairpost has none yet. You sign in next.", asks: ["address", "name", "password"], button: "Become admin", path: "/v1/auth/setup", then: "sign-in" },
  invitation: { title: "Choose a password", says: "You have been invited.", asks: ["name", "password"], button: "Set the password", path: "/v1/auth/accept", then: "done" },
  reset: { title: "Choose another password", says: "This ends all your sessions. You sign in next.", asks: ["password"], button: "Set the password", path: "/v1/auth/accept", then: "sign-in" },
  "sign-in": { title: "Sign in", asks: ["address", "password"], button: "Continue", path: "/v1/auth/sign-in", then: "code" },
  workspace: { title: "Choose a workspace", says: "Your password fits several workspaces.", asks: ["workspace"], button: "Continue", path: "/v1/auth/sign-in", then: "code" },
  enter: { title: "Sign in", says: "You are being signed in.", asks: [], button: "Sign in", path: "/v1/auth/enter", then: "done" },
  code: { title: "Enter the code", says: "It is on its way to you by e-mail, and works for 10 minutes in this browser.", asks: ["code"], button: "Sign in", path: "/v1/auth/code", then: "done" },
};
const WITH_TOKEN = ["setup", "invitation", "reset", "enter"];
const OPTIONAL = ["workspace", "name"];
const NO_ANSWER = "Fairpost does not answer. Try again.";

let now; // the name of the step
let isBusy = false;
let known = {}; // address and password, while a workspace is asked for

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
    input.disabled = !isAsked; // or what it holds would be judged unseen
    input.required = isAsked && !OPTIONAL.includes(input.name);
    if (input.name !== "workspace" && (!isAsked || input.name === "password")) input.value = "";
  }
  form.elements.password.autocomplete = name === "sign-in" ? "current-password" : "new-password";
  form.elements.password.minLength = name === "sign-in" ? 1 : 12;
  tell({ isWrong, isNew, code });
  if (step.asks.length) form.querySelector("input:enabled, select:enabled").focus();
  else if (!isWrong) form.requestSubmit(); // nothing is asked: the link is enough
}

function tell({ isWrong = "", isNew = "", code = "" }) {
  wrong.textContent = isWrong;
  wrong.dataset.code = code;
  news.textContent = isNew;
}

// One at a time: who clicks twice has not tried twice.
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
  form.elements.workspace.replaceChildren(...workspaces.map((name) => new Option(name || "This installation, as an admin", name)));
  show("workspace");
}

// Of an answer to address and password: whether the e-mail can be expected, and what to do if not.
function sayWhere({ is_on_its_way: isOnItsWay, then }) {
  if (!isOnItsWay) words.textContent = `No account can send the code by e-mail now. On the server, this command shows one that works for 10 minutes in this browser: ${then}`;
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
    show(then, { isNew: then === "sign-in" ? "Your password is set." : "" });
    if (then === "code") sayWhere(told.data);
  });
});

resend.addEventListener("click", () => busily(async () => {
  const told = await ask("/v1/auth/resend", {});
  if (!told.success) return refused(told.error);
  tell({ isNew: told.data.is_on_its_way ? "Another code is on its way; the one before has ended." : "The code before has ended." });
  sayWhere(told.data);
  form.elements.code.value = "";
  form.elements.code.focus();
}));

const page = location.pathname.slice(1);
const needsLink = WITH_TOKEN.includes(page) && !token;
show(needsLink || !(page in STEPS) || page === "code" ? "sign-in" : page, { isWrong: needsLink ? "This page needs the link that you were given, as a whole." : "", code: needsLink ? "link_missing" : "" });
