// The audit log for the current workspace or the installation.

import { get } from "../../ask.js";
import { h } from "../../dom.js";
import { moment, panel, table } from "../../parts.js";
import { told, words } from "../../format.js";
import { more } from "./lists.js";

const pathOf = ({ workspace }) => (workspace ? "/v1/audit" : "/v1/admin/audit");

export default {
  load: (ctx) => get(pathOf(ctx)),

  view(ctx) {
    const rows = ctx.data.items.map((entry) => ({
      key: entry.id,
      cells: [moment(entry.at), h("span.keep", entry.who), h("strong.keep", entry.action.replace(".", " ")), [entry.subject, " ", detail(entry)]],
    }));
    return panel(ctx.workspace ? `Audit log for ${ctx.workspace}` : "Audit log for the installation",
      table("Audit", ["Time", "Actor", "Action", "Subject"], rows, "No entries yet."), more(ctx, pathOf(ctx)));
  },
};

function detail({ detail: given, request_id }) {
  const known = Object.entries({ ...given, request: request_id }).filter(([, value]) => value !== null && value !== "");
  return h("small", known.map(([name, value]) => `${words(name)}: ${told(value)}`).join(" · "));
}
