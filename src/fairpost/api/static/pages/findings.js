// The findings of the content check, with the worst first.

import { h } from "../dom.js";
import { badge } from "../parts.js";

const LEVELS = [["bad", "Problems", "bad"], ["note", "Warnings", "wait"], ["good", "Passed", "good"]];

export const findings = (checks) => LEVELS.map(([level, name, tone]) => {
  const found = checks.filter((finding) => finding.level === level);
  return found.length ? [h("h3", `${name} (${found.length})`), h("ul.findings", found.map(({ what, text }) => h("li", badge(what, tone), " ", h("bdi", text))))] : null;
});
