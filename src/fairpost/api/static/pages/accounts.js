// The account list, with problem accounts first.

import { get } from "../ask.js";
import { h } from "../dom.js";
import { button, empty, heading, moment, panel, table, to } from "../parts.js";
import { counted, number, words } from "../format.js";
import { add, bounces, changes, doing, driver, errors, hour, isBarred, link, next, situation, today, told } from "./account-parts.js";

const SITUATIONS = ["suspended", "no_server", "resting", "paused", "limit_reached", "active"];

export default {
  title: "Accounts",
  topic: ({ values }) => ["accounts", { having: values.having, situation: values.situation }],
  load: async ({ workspace }) => (workspace && (await get("/v1/pools").catch(() => null))) || { lent: [] },

  view(ctx) {
    const { live } = ctx;
    const top = heading("Accounts", live?.all !== 0 && changes(ctx) && button("Add account", () => add(ctx), { tone: "main" }));
    if (!live) return [top, filters(ctx, null), h("p.quiet", "Loading …")];
    if (live.all === 0) return [top, nothing(ctx)];
    return [
      top,
      filters(ctx, live),
      told(ctx),
      panel(live.found > live.listed.length ? `${live.listed.length} of ${number(live.found)} accounts` : counted(live.found, "account"),
        table("Accounts", HEADS, live.listed.map((account) => row(ctx, account)), "No matching accounts."),
        live.found > live.listed.length && h("p.quiet", "Accounts with problems come first. To find other accounts, search by name, address or pool.")),
    ];
  },
};

const HEADS = ["Account", "State", "Usage", "Next send", "Actions"];

function row(ctx, account) {
  return {
    key: account.name,
    cells: [
      h("div.named", link(ctx, account.name), h("br"), h("span.name.long", account.address), h("br"), h("small", of(ctx, account))),
      [situation(account), isBarred(account) && h("p.reason", account.condition.text), account.reading?.state === "failing" && h("p.reason", account.reading.condition.text), h("small.driver", driver(account)), h("small", account.last_used_at ? ["last used ", moment(account.last_used_at)] : "never used")],
      h("div.used", hour(account), today(account), bounces(account), errors(account)),
      next(account),
      doing(ctx, account),
    ],
  };
}

// The name already includes the workspace.
const of = ({ workspace }, account) =>
  [!workspace && !account.workspace && "shared account", `pool ${account.pool.replace(`${account.workspace}/`, "")}`, account.provider && `${account.provider} limits`].filter(Boolean).join(" · ");

function filters({ values, go }, live) {
  const search = (event) => {
    event.preventDefault();
    go("/accounts", { ...values, having: event.currentTarget.elements.having.value.trim() });
  };
  const one = (name, n) => h("a", { href: to("/accounts", { having: values.having, situation: name }), "aria-current": name === (values.situation || null) ? "page" : null },
    name ? words(name) : "all", live && ` ${number(n)}`);
  const all = live ? Object.values(live.situations).reduce((sum, n) => sum + n, 0) : 0;
  return [
    h("form.filters", { role: "search", onsubmit: search, "data-key": `search ${values.having || ""}` },
      h("input", { type: "search", name: "having", value: values.having || "", "aria-label": "Name, address or pool", placeholder: "Name, address or pool", maxlength: 100 }),
      h("button", { type: "submit" }, "Search")),
    h("nav.tabs", { "aria-label": "Filter by state" }, one(null, all), SITUATIONS.filter((name) => live?.situations[name] || name === values.situation).map((name) => one(name, live?.situations[name] || 0))),
  ];
}

function nothing(ctx) {
  const lent = ctx.data?.lent || [];
  return panel("No accounts yet", empty(
    "An account sends e-mails: it has an address, a mail server and credentials.",
    lent.length ? h("p", `Until you add an account, this workspace can send through the operator's ${lent.length === 1 ? "pool" : "pools"} ${lent.join(", ")}.`) : null,
    changes(ctx) ? button("Add your first account", () => add(ctx), { tone: "main" }) : h("p", "Ask a manager of this workspace to add an account.")));
}
