"""Updating a page: it gets its new content, and elements in use stay the same."""

import pytest
from playwright.async_api import Page

from tests.thorough import times

# A small seeded generator, so that failures can be reproduced.
TREES = """
const { h, patch } = await import("/static/dom.js");
let seed = 0;
const chance = (n) => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return (seed >>> 8) % n; };
const shuffled = (all) => { for (let n = all.length - 1; n > 0; n--) { const m = chance(n + 1); [all[n], all[m]] = [all[m], all[n]]; } return all; };
const NAMES = ["p", "div", "ul", "span"];
const made = (depth, keys = shuffled([..."abcdef"]).slice(0, chance(7))) =>
  shuffled([...keys.map((key) => one(depth, key)), ...Array.from({ length: chance(4) }, () => (chance(2) ? one(depth, null) : `words ${chance(3)}`))]);
const one = (depth, key) => h(chance(8) ? NAMES[key ? key.charCodeAt(0) % 4 : 0] : NAMES[chance(4)], { "data-key": key, title: chance(2) ? String(chance(3)) : null }, depth ? made(depth - 1) : String(chance(3)));
const root = (...children) => h("main", children);
const shownAs = (node) => { const clone = node.cloneNode(true); clone.normalize(); return clone.outerHTML; };
document.body.replaceChildren();
"""

ALIKE = """
// By the keys on the way to it, and only where all of them are of the same kind.
const places = (node, path = "", found = new Map()) => {
  for (const child of node.children) {
    const key = child.getAttribute("data-key");
    if (!key) continue;
    found.set(`${path}/${child.nodeName}.${key}`, child);
    places(child, `${path}/${child.nodeName}.${key}`, found);
  }
  return found;
};
for (let n = 1; n <= times; n++) {
  seed = n;
  const [old, fresh] = [root(made(2)), root(made(2))];
  document.body.replaceChildren(old);
  const [wanted, before] = [shownAs(fresh), places(old)];
  const is = patch(old, fresh);
  if (is !== old || shownAs(is) !== wanted) return `seed ${n}: ${shownAs(is)} instead of ${wanted}`;
  for (const [path, node] of places(is)) if (before.has(path) && before.get(path) !== node) return `seed ${n}: ${path} is another one`;
}
return null;
"""

IN_ORDER = """
for (let n = 1; n <= times; n++) {
  seed = n;
  const keys = [..."abcdefgh"];
  const some = () => keys.filter(() => chance(3));
  const between = (all) => all.flatMap((key) => [h("p", { "data-key": key }, h("button", key)), chance(3) ? [] : h("i", String(chance(9)))].flat());
  const [before, after] = [some(), some()];
  const old = root(between(before));
  document.body.replaceChildren(old);
  const stays = new Map([...old.children].filter((each) => after.includes(each.getAttribute("data-key"))).map((each) => [each, 1]));
  const watch = new MutationObserver(() => {});
  watch.observe(old, { childList: true });
  patch(old, root(between(after)));
  const moved = watch.takeRecords().flatMap(({ removedNodes }) => [...removedNodes]).filter((each) => stays.has(each));
  if (moved.length) return `seed ${n}: ${before} to ${after} moved ${moved.map((each) => each.textContent)}`;
}
return null;
"""

FOCUS = """
for (let n = 1; n <= times; n++) {
  seed = n;
  const list = () => root(shuffled([..."abcdef"]).map((key) => h("p", { "data-key": key }, h("input", { name: key }))));
  document.body.replaceChildren(list());
  const input = document.querySelector("[name=c]");
  input.focus();
  patch(document.body.firstChild, list());
  if (document.activeElement !== input) return `seed ${n}: the focus is lost`;
}
return null;
"""


async def _run(page: Page, script: str, *, number: int = 1) -> None:
    assert await page.evaluate(f"(async (times) => {{ {TREES} {script} }})({number})") is None


@pytest.mark.thorough
async def test_an_updated_element_becomes_correct_and_keeps_its_identity(page: Page) -> None:
    await page.goto("/sign-in")
    await _run(page, ALIKE, number=times(250))
    await _run(page, IN_ORDER, number=times(150))
    for script in ("", "delete Element.prototype.moveBefore;"):  # as in a browser that cannot move a focused element
        await _run(page, script + FOCUS, number=times(30))


async def test_user_input_is_not_undone_by_an_update(page: Page) -> None:
    await page.goto("/sign-in")
    script = """
    const box = (words) => root(h("details", h("summary", "s"), words), h("button", { type: "button" }, "Go"), h("section", { "aria-busy": words === "1" }), h("input", { value: words }));
    document.body.replaceChildren(box("1"));
    const [details, button, section, input] = document.querySelectorAll("details, button, section, input");
    details.open = true;
    button.setAttribute("aria-busy", "true");
    input.value = "typed";
    patch(document.body.firstChild, box("2"));
    return details.open && button.hasAttribute("aria-busy") && !section.hasAttribute("aria-busy") && input.value === "typed" && details.lastChild.data === "2" ? null : document.body.outerHTML;
    """
    await _run(page, script)


async def test_a_key_that_comes_twice_loses_nothing(page: Page) -> None:
    await page.goto("/sign-in")
    script = """
    const list = (...all) => root(all.map((words) => h("p", { "data-key": "k" }, words)));
    document.body.replaceChildren(list("1", "2"));
    patch(document.body.firstChild, list("3", "4", "5"));
    return document.body.textContent === "345" ? null : document.body.textContent;
    """
    await _run(page, script)
