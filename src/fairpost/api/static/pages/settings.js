// The settings. Each part is a separate file: { load(ctx), view(ctx) }.

import { h } from "../dom.js";
import { empty, heading, link, tabs, trouble } from "../parts.js";

const inWorkspace = (ctx) => Boolean(ctx.workspace);
const manages = (ctx) => inWorkspace(ctx) && ctx.is("manager", "admin");
const runs = (ctx) => ctx.is("admin");

const PARTS = [
  { name: "templates", group: "Content", title: "Templates", isFor: inWorkspace, module: () => import("./settings/templates.js") },
  { name: "portals", group: "Content", title: "Product e-mails", isFor: inWorkspace, module: () => import("./settings/portals.js") },
  { name: "general", group: "Sending", title: "General", isFor: inWorkspace, module: () => import("./settings/general.js") },
  { name: "accounts", group: "Sending", title: "Add account", isFor: manages, module: () => import("./settings/accounts.js") },
  { name: "domains", group: "Sending", title: "Domains", isFor: inWorkspace, module: () => import("./settings/domains.js") },
  { name: "schedule", group: "Sending", title: "Schedule", isFor: inWorkspace, module: () => import("./settings/schedule.js") },
  { name: "suppressions", group: "Sending", title: "Suppressions", isFor: inWorkspace, module: () => import("./settings/suppressions.js") },
  { name: "keys", group: "Access", title: "API keys", isFor: manages, module: () => import("./settings/keys.js") },
  { name: "webhooks", group: "Access", title: "Webhooks", isFor: inWorkspace, module: () => import("./settings/webhooks.js") },
  { name: "people", group: "Access", title: "Members", isFor: (ctx) => manages(ctx) || runs(ctx), module: () => import("./settings/members.js") },
  { name: "audit", group: "Access", title: "Audit log", isFor: (ctx) => manages(ctx) || runs(ctx), module: () => import("./settings/audit.js") },
  { name: "workspaces", group: "Installation", title: "Workspaces", isFor: runs, module: () => import("./settings/workspaces.js") },
  { name: "installation", group: "Installation", title: "System", isFor: runs, module: () => import("./settings/installation.js") },
  { name: "you", group: "Personal", title: "Your account", isFor: () => true, module: () => import("./settings/you.js") },
];

const partOf = (ctx) => (ctx.params.part ? PARTS.find((part) => part.name === ctx.params.part) : PARTS.find((part) => part.isFor(ctx)));

export default {
  title: "Settings",

  async load(ctx) {
    const part = partOf(ctx);
    if (!part?.isFor(ctx)) return null;
    try {
      ctx.state.part = (await part.module()).default;
      const data = await ctx.state.part.load?.(ctx);
      ctx.state.trouble = null;
      return data;
    } catch (error) {
      ctx.state.trouble = error; // the other parts stay available
      return null;
    }
  },

  view(ctx) {
    const part = partOf(ctx);
    document.title = `${part ? part.title : "Settings"} · Fairpost`;
    return [
      !ctx.params.name && heading("Settings", runs(ctx) && !ctx.workspace && h("span.quiet", link("/settings/workspaces", "Open a workspace"), " to see its templates, keys and domains.")),
      groups(ctx, part),
      h("div", { "data-key": `part ${ctx.params.part} ${ctx.params.name}` }, body(ctx, part)),
    ];
  },
};

function groups(ctx, here) {
  const shown = PARTS.filter((part) => part.isFor(ctx));
  const one = (group) => h("div.group", { "data-key": group }, h("span.group-name", { id: `group-${group}` }, group),
    tabs(group, shown.filter((part) => part.group === group).map((part) => [`/settings/${part.name}`, part.title]), here && `/settings/${here.name}`));
  return h("div.groups", [...new Set(shown.map((part) => part.group))].map(one));
}

function body(ctx, part) {
  if (!part) return empty("Page not found.", h("p", link("/settings", "Settings")));
  if (!part.isFor(ctx)) {
    if (!runs(ctx)) return empty(part.isFor === runs ? "Only admins can open this page." : "Only managers of the workspace can open this page.");
    return empty(`${part.title}: choose a workspace first.`, h("p", link("/settings/workspaces", "All workspaces")));
  }
  return ctx.state.trouble ? trouble(ctx.state.trouble, ctx.reload) : ctx.state.part.view(ctx);
}
