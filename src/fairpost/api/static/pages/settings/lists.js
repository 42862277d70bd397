// Shared by the lists in settings.

import { get } from "../../ask.js";
import { h } from "../../dom.js";
import { button, pager, tell } from "../../parts.js";

// Loads more of the list in ctx.data.
export const more = (ctx, path, values = {}) => pager(ctx.data.next, async (cursor) => {
  const next = await get(path, { ...values, cursor });
  ctx.data = { ...ctx.data, items: [...ctx.data.items, ...next.items], next: next.next };
  ctx.show();
});

export const actions = (...all) => (all.flat().some(Boolean) ? h("div.actions", all) : null);

// A text to copy, such as a key or a DNS record.
export function copied(label, text) {
  const input = h("input.mono", { readonly: true, value: text, "aria-label": label, onfocus: (event) => event.target.select() });
  return h("div.copied", { "data-key": `copied ${text}` }, input, button("Copy", () => copy(text, input), { label: `Copy: ${label}` }));
}

async function copy(text, input) {
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  } catch {
    input.focus(); // the browser does not allow copying, so the text is selected instead
    tell("The text is selected. Press Ctrl-C or ⌘-C to copy it.");
  }
}
