// What is set up once and looked at now and then. Each part is a file of its own: { load(ctx), view(ctx) }.

import { h } from "../dom.js";
import { empty, heading, link, tabs, trouble } from "../parts.js";

const inWorkspace = (ctx) => Boolean(ctx.workspace);
const manages = (ctx) => inWorkspace(ctx) && ctx.is("manager", "admin");
const runs = (ctx) => ctx.is("admin");

const PARTS = [
  { name: "templates", title: "Templates", isFor: inWorkspace, module: () => import("./settings/templates.js") },
  { name: "portals", title: "Product e-mails", isFor: inWorkspace, module: () => import("./settings/portals.js") },
  { name: "suppressions", title: "Suppressions", isFor: inWorkspace, module: () => import("./settings/suppressions.js") },
  { name: "schedule", title: "Schedule", isFor: inWorkspace, module: () => import("./settings/schedule.js") },
  { name: "domains", title: "Domains", isFor: inWorkspace, module: () => import("./settings/domains.js") },
  { name: "accounts", title: "New account", isFor: manages, module: () => import("./settings/accounts.js") },
  { name: "keys", title: "Keys", isFor: manages, module: () => import("./settings/keys.js") },
  { name: "people", title: "People", isFor: (ctx) => manages(ctx) || runs(ctx), module: () => import("./settings/people.js") },
  { name: "workspaces", title: "Workspaces", isFor: runs, module: () => import("./settings/workspaces.js") },
  { name: "installation", title: "Installation", isFor: runs, module: () => import("./settings/installation.js") },
  { name: "audit", title: "Audit", isFor: (ctx) => manages(ctx) || runs(ctx), module: () => import("./settings/audit.js") },
  { name: "you", title: "You", isFor: () => true, module: () => import("./settings/you.js") },
];

const partOf = (ctx) => (ctx.params.part ? PARTS.find((part) => part.name === ctx.params.part) : PARTS.find((part) => part.isFor(ctx)));

export default {
  title: "Set-up",

  async load(ctx) {
    const part = partOf(ctx);
    if (!part?.isFor(ctx)) return null;
    try {
      ctx.state.part = (await part.module()).default;
      const data = await ctx.state.part.load?.(ctx);
      ctx.state.trouble = null;
      return data;
    } catch (error) {
      ctx.state.trouble = error; // the other parts can be reached all the same
      return null;
    }
  },

  view(ctx) {
    const part = partOf(ctx);
    document.title = `${part ? part.title : "Set-up"} · Fairpost`;
    return [
      !ctx.params.name && heading("Set-up", runs(ctx) && !ctx.workspace && h("span.quiet", "Of the whole service. ", link("/settings/workspaces", "Open a workspace"), " to see its templates, keys and domains.")),
      tabs("Parts of the set-up", PARTS.filter((each) => each.isFor(ctx)).map((each) => [`/settings/${each.name}`, each.title]), part && `/settings/${part.name}`),
      h("div", { "data-key": `part ${ctx.params.part} ${ctx.params.name}` }, body(ctx, part)),
    ];
  },
};

function body(ctx, part) {
  if (!part) return empty("There is no such part.", h("p", link("/settings", "To the set-up")));
  if (!part.isFor(ctx)) {
    if (!runs(ctx)) return empty(part.isFor === runs ? "This is for those who run the service." : `${part.title}: this is for those who manage the workspace. Ask one of them.`);
    return empty(`${part.title}: these are a workspace's own. Choose one above, or in the list.`, h("p", link("/settings/workspaces", "To the workspaces")));
  }
  return ctx.state.trouble ? trouble(ctx.state.trouble, ctx.reload) : ctx.state.part.view(ctx);
}
