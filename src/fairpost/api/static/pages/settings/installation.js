// The installation: engines, regions, and every setting with its origin. This page is read-only, because settings are changed on the server.

import { get } from "../../ask.js";
import { h } from "../../dom.js";
import { badge, columns, empty, panel, table, tabs } from "../../parts.js";
import { bytes, duration, number } from "../../format.js";

// Groups of settings, by variable prefix. All other settings are in the group "General".
const GROUPS = [
  ["Database and storage", /^(home|database_url|regions?|retention_days|secret_key)/],
  ["Fairness and abuse", /^(fair_queue|priority|tier_weights|lane_shares|abuse|throttle_max|paid_plans|free_plans|user_|workspace_daily|max_queue)/],
  ["Sending", /^(engine|poll_interval|patience|redirect_all|service_pool|smtp_)/],
  ["HTTP and network", /^(public_url|trusted_proxies|client_|allowed_)/],
  ["General", /./],
];
const groupOf = ({ variable }) => GROUPS.find(([, names]) => names.test(variable.replace("FAIRPOST_", "").toLowerCase()))[0];

const SHORT = 24; // longer values can wrap

export default {
  async load() {
    const [settings, ready, fairness] = await Promise.all([get("/v1/admin/settings"), get("/readyz").catch(() => null), get("/v1/admin/fairness", { hours: 1 }).catch(() => null)]);
    return { settings, regions: ready?.regions ?? {}, engines: fairness?.engines ?? null };
  },

  view({ data, values }) {
    const isSet = (each) => each.origin !== "default";
    const shown = values.only === "set" ? data.settings.filter(isSet) : data.settings;
    return [
      columns(panel("Engines", engines(data.engines)), panel("Regions", regions(data.regions))),
      panel("Settings",
        h("p.quiet", "To change a setting, edit the environment or the settings file on the server and restart Fairpost. Secrets are never shown."),
        tabs("Filter settings", [["/settings/installation", `All (${data.settings.length})`], ["/settings/installation?only=set", `Changed (${data.settings.filter(isSet).length})`]], values.only === "set" ? "/settings/installation?only=set" : "/settings/installation"),
        shown.length ? GROUPS.map(([title]) => group(title, shown.filter((each) => groupOf(each) === title))) : empty("Every setting has its default value.")),
    ];
  },
};

const group = (title, all) => all.length > 0 && [h("h3", title), table(title, ["Setting", "Value", "Origin", "Description"], all.map(setting))];

const setting = (each) => ({
  key: each.variable,
  cells: [h("code.keep", each.variable), each.value === null ? h("span.quiet", "not set") : h(each.value.length <= SHORT ? "code.keep" : "code", each.value), badge(each.origin, each.origin === "default" ? "quiet" : "good"), [marked(each.help), " ", h("small", marked(each.rule))]],
});

const marked = (text) => text.split("`").map((piece, n) => (n % 2 ? h("code", piece) : piece));

function engines(all) {
  if (all === null) return h("p.notice.wait", "Could not load the engines. Reload the page.");
  const rows = all.map((each) => ({ key: each.id, cells: [h("span.mono", each.id), badge(each.is_asleep ? "idle" : "busy", "good"), number(each.processes), each.cpu_s === null ? null : duration(each.cpu_s), each.rss_bytes === null ? null : bytes(each.rss_bytes)] }));
  return table("Engines", ["Engine", "State", ">Processes", ">CPU", ">Memory"], rows, "No engine is running, so no e-mails are sent. To start an engine, run this on the server: fairpost work");
}

const regions = (all) => table("Regions", ["Region", "State"], Object.entries(all).map(([name, answers]) => ({ key: name, cells: [name, answers ? badge("up", "good") : badge("down", "bad")] })), "Could not load the regions.");
