// The installation: whether its parts answer, and every setting with its origin. It is changed on the server, not here.

import { get } from "../../ask.js";
import { h } from "../../dom.js";
import { badge, columns, panel, table, tabs } from "../../parts.js";
import { bytes, duration, number } from "../../words.js";

const SHORT = 24; // what is longer may be broken where the line ends

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
        h("p.quiet", "They are changed on the server, in the environment or the file of settings, and count when Fairpost is started again. Secrets are never shown."),
        tabs("Which settings", [["/settings/installation", `all: ${data.settings.length}`], ["/settings/installation?only=set", `not by default: ${data.settings.filter(isSet).length}`]], values.only === "set" ? "/settings/installation?only=set" : "/settings/installation"),
        table("Settings", ["setting", "value", "from", "what it is"], shown.map(setting), "Every setting has its default.")),
    ];
  },
};

const setting = (each) => ({
  key: each.variable,
  cells: [h("code.keep", each.variable), each.value === null ? h("span.quiet", "nothing") : h(each.value.length <= SHORT ? "code.keep" : "code", each.value), badge(each.origin, each.origin === "default" ? "quiet" : "good"), [marked(each.help), " ", h("small", marked(each.rule))]],
});

const marked = (text) => text.split("`").map((piece, n) => (n % 2 ? h("code", piece) : piece));

function engines(all) {
  if (all === null) return h("p.notice.wait", "The engines could not be asked. Reload the page.");
  const rows = all.map((each) => ({ key: each.id, cells: [h("span.mono", each.id), badge(each.is_asleep ? "runs, has time" : "runs, is busy", "good"), number(each.processes), each.cpu_s === null ? null : duration(each.cpu_s), each.rss_bytes === null ? null : bytes(each.rss_bytes)] }));
  return table("Engines", ["engine", "state", ">processes", ">CPU", ">memory"], rows, "No engine runs: nothing is sent. On the server: fairpost work");
}

const regions = (all) => table("Regions", ["region", "state"], Object.entries(all).map(([name, answers]) => ({ key: name, cells: [name, answers ? badge("answers", "good") : badge("does not answer", "bad")] })), "No region could be asked.");
