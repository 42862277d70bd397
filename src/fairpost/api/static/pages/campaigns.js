// The latest campaigns: progress, and what each is waiting for.

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
    if (!live) return [heading("Campaigns", make), h("p.quiet", "Loading …")];
    return [
      heading("Campaigns", make),
      live.campaigns.length ? listed(live, isAll) : h("section.panel", none(isAll, make)),
      (ctx.state.older || []).length ? panel("Older campaigns", older(ctx.state.older)) : null,
      pager(ctx.state.next === undefined ? live.next : ctx.state.next, (cursor) => more(ctx, cursor)),
    ];
  },
};

const HEADS = ["Campaign", "State", "Progress", "Waiting for", "Launched", "Done"];

function listed(live, isAll) {
  const rows = live.campaigns.map((each) => ({
    key: `${each.workspace} ${each.id}`,
    cells: [...(isAll ? [each.workspace] : []), name(each, isAll), state(each.state), share(each), waits(each), moment(each.launched_at), done(each)],
  }));
  return h("section.panel", { "data-key": "list", "aria-label": "Campaigns" }, table("Campaigns", isAll ? ["Workspace", ...HEADS] : HEADS, rows));
}

const place = (each) => `/campaigns/${segment(each.id)}`;
const name = (each, isAll) => h("a", { href: isAll ? to(place(each), { workspace: each.workspace }) : to(place(each)) }, each.id);
const share = (each) => (each.emails ? progress(each.id, each) : h("span.quiet", "–"));
const waits = (each) => (each.is_over ? "–" : [each.waits_for, each.waits_until && [" (", countdown(each.waits_until), ")"]]);
const done = (each) => (each.ends_at ? [each.is_over ? null : "expected ", moment(each.ends_at)] : "–");

function none(isAll, make) {
  if (isAll) return empty("No campaigns yet.", h("p", "To create a campaign, choose a workspace at the top, or ", link("/settings/workspaces", "add a workspace"), "."));
  return [
    empty("No campaigns yet. To create one:"),
    h("ol", h("li", "Create a ", link("/settings/templates", "template"), " with the content."),
      h("li", "Import a list of prospects, either on the server with ", h("code", "fairpost prospects import"), " or through the ", h("a", { href: "/docs" }, "HTTP API"), "."),
      h("li", "Add an ", link("/accounts", "account"), " to send through."), make && h("li", "Choose New campaign above.")),
  ];
}

const older = (all) => table("Older campaigns", ["Campaign", "State", "Launched", "Done"],
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
