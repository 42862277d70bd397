// The workspaces of a region: add them, set their pools, suspend and readmit them.

import { get, post, put, segment } from "../../ask.js";
import { h } from "../../dom.js";
import { form } from "../../form.js";
import { badge, button, dialog, moment, panel, table, tabs, tell, to } from "../../parts.js";
import { actions, more } from "./lists.js";

const PATH = "/v1/admin/workspaces";
const HINT = "Shared pools that the workspace can use, each with the allowed From domains or addresses. For example: relay=acme.com,news@acme.org; fast=proven. \"proven\" allows the workspace's verified domains. Leave empty if the workspace sends only through its own accounts.";

export default {
  async load({ values }) {
    const [page, ready] = await Promise.all([get(PATH, { region: values.region }), get("/readyz")]);
    return { ...page, regions: Object.keys(ready.regions) };
  },

  view(ctx) {
    const { regions, items } = ctx.data;
    const isOne = regions.length < 2;
    const fields = [
      { name: "name", label: "Name", required: true, maxlength: 100, autocomplete: "off" },
      { name: "pools", label: "Pools", hint: HINT },
      ...(isOne ? [] : [{ name: "region", label: "Region", options: regions.map((each) => [each, each]), value: ctx.values.region ?? regions[0], hint: "The region cannot be changed later." }]),
    ];
    const heads = ["Name", ...(isOne ? [] : ["Region"]), "Pools", "Created", "State", ""];
    return [
      panel("Add a workspace", form("workspace", fields, { yes: "Add", isShort: true, act: (entered, box) => add(ctx, entered, box) })),
      panel("Workspaces",
        isOne ? null : tabs("Regions", regions.map((each) => [`/settings/workspaces?region=${segment(each)}`, each]), `/settings/workspaces?region=${segment(ctx.values.region ?? regions[0])}`),
        table("Workspaces", heads, items.map((each) => row(ctx, each, isOne)), "No workspaces yet. Add the first workspace."),
        more(ctx, PATH, { region: ctx.values.region })),
    ];
  },
};

function row(ctx, each, isOne) {
  const path = `${PATH}/${segment(each.name)}`;
  const readmit = async () => {
    await post(`${path}/readmit`);
    tell(`${each.name} is readmitted.`);
    await ctx.reload();
  };
  return {
    key: each.name,
    cells: [
      h("a", { href: to("/settings/templates", { workspace: each.name }), "aria-label": `Open ${each.name}` }, each.name), ...(isOne ? [] : [each.region]), written(each.loans) || h("span.quiet", "none"), moment(each.created_at),
      each.suspended_at ? [badge("suspended", "bad"), " ", each.reason] : badge("active", "good"),
      actions(
        button("Pools", () => changePools(ctx, each, path), { label: `Change the pools for ${each.name}` }),
        each.suspended_at ? button("Readmit", readmit, { label: `Readmit ${each.name}` }) : button("Suspend", () => suspend(ctx, each, path), { tone: "danger", label: `Suspend ${each.name}` })),
    ],
  };
}

const written = (loans) => loans.map(({ pool, from }) => `${pool}=${from.join(",")}`).join("; ");

const read = (text) => text.split(";").map((each) => each.trim()).filter(Boolean).map((each) => {
  const [pool, ...from] = each.split("=");
  return from.length ? { pool: pool.trim(), from: from.join("=").split(",").map((sender) => sender.trim()).filter(Boolean) } : pool;
});

async function add(ctx, { name, pools, region }, box) {
  const made = await put(`${PATH}/${segment(name.trim())}`, { pools: read(pools), region });
  tell(`Workspace ${made.name} added. Open the workspace to create keys and invite members.`);
  box.reset();
  await ctx.reload();
}

async function changePools(ctx, { name, loans }, path) {
  const entered = await dialog(`Pools for ${name}`, {
    fields: [{ name: "pools", label: "Pools", value: written(loans), hint: HINT }],
    yes: "Save",
    act: ({ pools: words }) => put(path, { pools: read(words) }),
  });
  if (entered) await ctx.reload();
}

async function suspend(ctx, { name }, path) {
  const entered = await dialog(`Suspend ${name}?`, {
    text: "The workspace's API keys and members will lose access immediately. Queued e-mails will still be sent.",
    fields: [{ name: "reason", label: "Reason", maxlength: 500 }],
    yes: "Suspend",
    tone: "danger",
    act: ({ reason }) => post(`${path}/suspend`, { reason: reason || null }),
  });
  if (entered) await ctx.reload();
}
