// Limits of an account on a form. The API describes them: which there are, what each is called, its bounds, and what it is without one.

// `limits`: those that the account has, or its provider's. `before`: what names of fields begin with.
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

// What stands in its field. A part of a plan that is 0 is not in it.
const typed = (each, value) => (value === null || (isPart(each) && !value) ? "" : each.options.length ? value : value / each.scale);

// What the API is given: only what is not as it was. A plan of which nothing is typed is none.
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

// A part of a plan that is left out is 0.
const isSame = (one, other) => (one && other && typeof one === "object" ? Object.keys(other).every((part) => (one[part] ?? 0) === other[part]) : one === other);

function given(each, value) {
  if (each.options.length) return value;
  if (value === null || value === undefined) return each.is_optional ? null : each.default;
  return each.is_whole ? value : Math.round(value * each.scale * 1000) / 1000;
}
