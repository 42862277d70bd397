// The pages of people who sign in: one form, and what is asked next.
"use strict";

const form = document.getElementById("form");
const words = document.getElementById("words");
const resend = document.getElementById("resend");
const token = new URLSearchParams(location.search).get("token") || "";
if (token) history.replaceState(null, "", location.pathname); // it opens something: not for the history

const STEPS = {
  setup: { asks: ["address", "name", "password"], path: "/api/auth/setup", says: "Become the first admin of this Fairpost.", then: "sign-in" },
  invitation: { asks: ["name", "password"], path: "/api/auth/accept", says: "Choose a password.", then: "sign-in" },
  reset: { asks: ["password"], path: "/api/auth/accept", says: "Choose another password.", then: "sign-in" },
  "sign-in": { asks: ["address", "workspace", "password"], path: "/api/auth/sign-in", says: "Sign in.", then: "code" },
  enter: { asks: [], path: "/api/auth/enter", says: "You are being signed in.", then: "done" },
  code: { asks: ["code"], path: "/api/auth/code", says: "A code is on its way to you by e-mail.", then: "done" },
};

let step;

function show(name, says) {
  step = STEPS[name];
  words.textContent = says || step.says;
  form.hidden = !step.asks.length;
  resend.hidden = name !== "code";
  for (const label of form.querySelectorAll("label")) {
    const isAsked = step.asks.includes(label.dataset.for);
    label.hidden = !isAsked;
    const input = label.querySelector("input");
    input.required = isAsked && !["workspace", "name"].includes(input.name);
    if (!isAsked) input.value = "";
  }
  form.elements.password.autocomplete = name === "sign-in" ? "current-password" : "new-password";
  if (step.asks.length) form.querySelector("label:not([hidden]) input").focus();
  else form.requestSubmit(); // nothing is asked: the link is enough
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

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = {};
  for (const name of step.asks) {
    const value = form.elements[name].value;
    if (value) body[name] = name === "password" ? value : value.trim();
  }
  if (["/api/auth/setup", "/api/auth/accept", "/api/auth/enter"].includes(step.path)) body.token = token;
  try {
    const told = await ask(step.path, body);
    if (!told.success) {
      const details = told.error.details;
      const isOver = step === STEPS.code && details && (details.kind === "expired" || details.tries_left === 0);
      isOver ? show("sign-in", told.error.message) : (words.textContent = told.error.message);
    } else if (step.then === "done") {
      sessionStorage.setItem("fairpost-csrf", told.data.csrf_token);
      form.hidden = true;
      words.textContent = `You are signed in as ${told.data.person.address}.`;
    } else {
      show(step.then);
    }
  } catch {
    words.textContent = "Fairpost does not answer. Try again.";
  }
});

resend.addEventListener("click", async () => {
  const told = await ask("/api/auth/resend", {});
  words.textContent = told.success ? "Another code is on its way; the one before has ended." : told.error.message;
});

show(location.pathname.slice(1) in STEPS && location.pathname !== "/code" ? location.pathname.slice(1) : "sign-in");
