// What somebody has typed and not saved. A form is guarded by `guarded(form)`: whoever leaves the page, or closes it, is asked first if anything in it has changed.

export const typed = (form) => JSON.stringify([...new FormData(form)].map(([name, value]) => [name, value.name ?? value]));

export function guarded(form) {
  form.setAttribute("data-guarded", "");
  saved(form);
  return form;
}

// From here on it is as it should be.
const saved = (form) => (form.saved = typed(form));
export const isChanged = (form) => form.hasAttribute("data-guarded") && form.saved !== typed(form);
export const isUnsaved = () => [...document.querySelectorAll("form[data-guarded]")].some(isChanged);
export const forget = () => document.querySelectorAll("form[data-guarded]").forEach(saved);

addEventListener("beforeunload", (event) => isUnsaved() && event.preventDefault());
