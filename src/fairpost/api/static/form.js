// A form that shows API errors next to its fields. Re-rendering keeps what was typed.

import { h } from "./dom.js";
import { entry, field } from "./parts.js";
import { guarded, typed } from "./unsaved.js";

// fields: as for dialog(), with the names that the API uses; also {type: "choices", options: [[value, words]], value: [value…]}.
// isShort: fields are placed side by side if there is room. isGuarded: asks for confirmation before unsaved changes are lost.
// act(entered, form): if it throws an error, the error is shown next to the fields that it names or, if it names none, below the form.
// done(result of act): runs once the form counts as saved. Reload the page here.
export function form(key, fields, { yes, act, done = async () => {}, beside = null, oninput = null, isShort = false, isGuarded = false }) {
  const said = h("p.refused", { role: "alert", hidden: true });
  const go = yes ? h("button.main", { type: "submit" }, yes) : null;
  const submit = async (event) => {
    event.preventDefault();
    if (!go || go.getAttribute("aria-busy") === "true") return;
    clear(box, said);
    go.setAttribute("aria-busy", "true");
    const sent = typed(box); // input after this point is unsaved
    try {
      const answer = await box.act(entered(box, fields), box);
      box.saved = sent;
      await box.done(answer);
    } catch (error) {
      refuse(box, said, error);
    } finally {
      go.removeAttribute("aria-busy");
    }
  };
  const box = h("form", { class: isShort ? "short" : null, "data-key": `form ${key}`, "data-own": true, onsubmit: submit, oninput }, fields.map(drawn), said, h("div.actions", go, beside));
  Object.assign(box, { act, done });
  box.renew = (fresh) => Object.assign(box, { act: fresh.act, done: fresh.done }); // the page around the form may have changed
  return isGuarded ? guarded(box) : box;
}

function drawn(one) {
  const made = one.type === "choices" ? choices(one) : field(one);
  made.setAttribute("data-field", one.name);
  return made;
}

const choices = ({ name, label, options, value = [], hint }) => h("fieldset.several", h("legend", label),
  options.map(([each, words]) => h("label", h("input", { type: "checkbox", name, value: each, checked: value.includes(each) }), words)), hint && h("small", hint));

export const entered = (box, fields) => Object.fromEntries(fields.map((one) => [one.name, read(box, one)]));

function read(box, { name, type }) {
  if (type === "choices") return [...box.querySelectorAll("input:checked")].filter((each) => each.name === name).map((each) => each.value);
  return entry(box.elements.namedItem(name), { type });
}

function refuse(box, said, error) {
  const details = Array.isArray(error.details) ? error.details : [];
  const placed = details.map((detail) => [detail, placeOf(box, String(detail.field))]).filter(([, place]) => place);
  for (const [detail, place] of placed) sayAt(place, detail);
  const isAllPlaced = placed.length > 0 && placed.length === details.length;
  said.textContent = isAllPlaced ? "Nothing was saved. Correct the fields above." : error.message;
  said.hidden = false;
  placed[0]?.[1].querySelector("input, select, textarea").focus();
}

// An error at "window.holidays[3]" is shown at "window.holidays".
function placeOf(box, name) {
  for (let path = name; path; path = path.replace(/(^|\.)[^.[]*$|\[\d+\]$/, "")) {
    const place = [...box.querySelectorAll("[data-field]")].find((each) => each.dataset.field === path);
    if (place) return place;
  }
  return null;
}

function sayAt(place, { message, line, column }) {
  const id = `refused ${place.dataset.field}`.replaceAll(/[^a-z]/g, "-");
  if (!place.querySelector(".refused")) place.append(h("small.refused", { id }));
  place.querySelector(".refused").append(h("span", `${line ? `Line ${line}, column ${column}: ` : ""}${message.replace(/\.$/, "")}. `));
  for (const input of place.querySelectorAll("input, select, textarea")) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
  }
}

function clear(box, said) {
  said.hidden = true;
  for (const each of box.querySelectorAll("[data-field] .refused")) each.remove();
  for (const each of box.querySelectorAll("[aria-invalid]")) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-describedby");
  }
}
