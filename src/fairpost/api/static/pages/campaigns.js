// The newest campaigns: how far each has come, and what it waits for.

import { get, put, segment } from "../ask.js";
import { h } from "../dom.js";
import { button, countdown, empty, heading, link, moment, pager, panel, progress, state, table, to } from "../parts.js";
import { draftDialog } from "./draft.js";

export default {
  title: "Campaigns",
  topic: () => ["campaigns"],

  view(ctx) {
    const { live, is, workspace } = ctx;
    const isAll = is("admin") && !workspace;
    const make = !isAll && is("admin", "manager") && button("New campaign", () => made(ctx), { tone: "main" });
    if (!live) return [heading("Campaigns", make), h("p.quiet", "Looking …")];
    return [
      heading("Campaigns", make),
      live.campaigns.length ? listed(live, isAll) : h("section.panel", none(isAll, make)),
      (ctx.state.older || []).length ? panel("Older ones", older(ctx.state.older)) : null,
      pager(ctx.state.next === undefined ? live.next : ctx.state.next, (cursor) => more(ctx, cursor)),
    ];
  },
};

const HEADS = ["campaign", "state", "progress", "what it waits for", "launched", "done"];

function listed(live, isAll) {
  const rows = live.campaigns.map((each) => ({
    key: `${each.workspace} ${each.id}`,
    cells: [...(isAll ? [each.workspace] : []), name(each, isAll), state(each.state), share(each), waits(each), moment(each.launched_at), done(each)],
  }));
  return h("section.panel", { "data-key": "list", "aria-label": "Campaigns" }, table("Campaigns", isAll ? ["workspace", ...HEADS] : HEADS, rows));
}

const place = (each) => `/campaigns/${segment(each.id)}`;
const name = (each, isAll) => h("a", { href: isAll ? to(place(each), { workspace: each.workspace }) : to(place(each)) }, each.id);
const share = (each) => (each.emails ? progress(each.id, each) : h("span.quiet", "–"));
const waits = (each) => (each.is_over ? "–" : [each.waits_for, each.waits_until && [" (", countdown(each.waits_until), ")"]]);
const done = (each) => (each.ends_at ? [each.is_over ? null : "expected ", moment(each.ends_at)] : "–");

function none(isAll, make) {
  if (isAll) return empty("No workspace has a campaign yet.", h("p", "Choose a workspace above to make one, or ", link("/settings/workspaces", "add a workspace"), "."));
  return [
    empty("There is no campaign yet. One takes words, people, and an account that sends."),
    h("ol", h("li", link("/settings/templates", "A template"), " with the words."),
      h("li", "A list of people. On the server: ", h("code", "fairpost prospects import --help"), ". Over HTTP: ", h("a", { href: "/docs" }, "the API"), "."),
      h("li", link("/accounts", "An account"), " that sends."), h("li", "A campaign that brings them together.", make && " Press New campaign above.")),
  ];
}

const older = (all) => table("Older campaigns", ["campaign", "state", "launched", "done"],
  all.map((each) => ({ key: each.id, cells: [link(place(each), each.id), state(each.state), moment(each.launched_at), moment(each.finished_at)] })));

async function more(ctx, cursor) {
  const page = await get("/v1/campaigns", { cursor, limit: 100 });
  ctx.state.older = [...(ctx.state.older || []), ...page.items];
  ctx.state.next = page.next;
  ctx.show();
}

async function made(ctx) {
  const name_ = await draftDialog(null, (id, body) => put(`/v1/campaigns/${segment(id)}`, body));
  if (name_) await ctx.go(`/campaigns/${segment(name_)}`);
}
