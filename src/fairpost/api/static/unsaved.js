// Unsaved input. `guarded(form)` protects a form: if its input has changed, leaving or closing the page asks for confirmation first.

export const typed = (form) => JSON.stringify([...new FormData(form)].map(([name, value]) => [name, value.name ?? value]));

export function guarded(form) {
  form.setAttribute("data-guarded", "");
  saved(form);
  return form;
}

// Marks the current input as saved.
const saved = (form) => (form.saved = typed(form));
export const isChanged = (form) => form.hasAttribute("data-guarded") && form.saved !== typed(form);
export const isUnsaved = () => [...document.querySelectorAll("form[data-guarded]")].some(isChanged);
export const forget = () => document.querySelectorAll("form[data-guarded]").forEach(saved);

addEventListener("beforeunload", (event) => isUnsaved() && event.preventDefault());
