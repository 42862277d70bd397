// An account's limits as form fields. The API describes their names, labels, bounds and defaults.

// `limits` contains the limits of the account or of its provider. `before` is the prefix for field names.
export const limitFields = (described, limits, before = "") => described.map((each) => ({
  name: before + each.name,
  label: each.label,
  type: each.options.length ? "select" : "number",
  options: each.options.length ? each.options : undefined,
  min: each.min,
  max: each.max,
  step: each.is_whole ? 1 : "any",
  value: shown(each, limits),
}));

const shown = (each, limits) => typed(each, valueOf(each, limits));
const valueOf = ({ name }, limits) => name.split(".").reduce((part, key) => part?.[key], limits) ?? null;
const isPart = ({ name }) => name.includes(".");

// The value shown in the field. If a part of a plan is 0, its field is empty.
const typed = (each, value) => (value === null || (isPart(each) && !value) ? "" : each.options.length ? value : value / each.scale);

// The request contains only changed values. If a plan has no input, it is null.
export function limitsOf(described, entered, before) {
  const limits = {};
  for (const each of described) {
    const value = given(each, entered[each.name]);
    const [plan, part] = each.name.split(".");
    if (part) limits[plan] = value ? { ...limits[plan], [part]: value } : limits[plan] ?? null;
    else limits[plan] = value;
  }
  return Object.fromEntries(Object.entries(limits).filter(([name, value]) => !isSame(value, before?.[name] ?? null)));
}

// A missing part of a plan is 0.
const isSame = (one, other) => (one && other && typeof one === "object" ? Object.keys(other).every((part) => (one[part] ?? 0) === other[part]) : one === other);

function given(each, value) {
  if (each.options.length) return value;
  if (value === null || value === undefined) return each.is_optional ? null : each.default;
  return each.is_whole ? value : Math.round(value * each.scale * 1000) / 1000;
}
