// Renders this service's OpenAPI document. Loads nothing from elsewhere.
"use strict";

const place = document.getElementById("paths");
const find = document.getElementById("find");
const none = document.getElementById("none");

function element(name, words = "", className = "") {
  const made = document.createElement(name);
  made.append(...said(words));
  if (className) made.className = className;
  return made;
}

// Text in which parts between backticks are shown as code.
function said(words) {
  return words.split(/`([^`\n]+)`/).map((part, n) => {
    if (n % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

// Returns the schema that a $ref refers to.
function meant(each, all) {
  const [, , kind, name] = (each.$ref || "").split("/");
  return name ? all[kind][name] : each;
}

function shape(schema, all, depth = 0) {
  if (!schema) return "";
  if (schema.$ref) return shape(meant(schema, all), all, depth);
  const pad = "  ".repeat(depth + 1);
  if (schema.anyOf || schema.oneOf) return (schema.anyOf || schema.oneOf).map((each) => shape(each, all, depth)).join(" | ");
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `[${shape(schema.items, all, depth)}]`;
  if (schema.properties && depth < 5) {
    const required = new Set(schema.required || []);
    const lines = Object.entries(schema.properties).map(([name, each]) => {
      const says = each.description ? `  // ${each.description}` : "";
      return `${pad}${name}${required.has(name) ? "" : "?"}: ${shape(each, all, depth + 1)}${says}`;
    });
    return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
  }
  return schema.type || "any";
}

function operation(method, path, told, all) {
  const box = element("details");
  box.dataset.words = `${method} ${path} ${told.summary || ""}`.toLowerCase();
  const head = element("summary");
  head.append(element("span", method.toUpperCase(), "method"), element("code", path), element("span", told.summary || "", "says"));
  box.append(head);
  for (const each of (told.description || "").split(/\n\n+/).filter(Boolean)) box.append(element("p", each));
  if ((told.parameters || []).length) {
    const table = element("table");
    for (const each of told.parameters.map((parameter) => meant(parameter, all))) {
      const row = element("tr");
      row.append(element("td", `${each.name}${each.required ? "" : "?"}`), element("td", each.in), element("td", each.description || shape(each.schema, all)));
      table.append(row);
    }
    box.append(table);
  }
  for (const [kind, content] of Object.entries((told.requestBody || {}).content || {})) {
    box.append(element("p", `Request body: ${kind}`), element("pre", shape(content.schema, all)));
  }
  for (const [status, each] of Object.entries(told.responses || {})) {
    const answer = meant(each, all);
    const content = (answer.content || {})["application/json"];
    const inner = element("details");
    const [first, ...rest] = (answer.description || "").split(/\n+/);
    const head = element("summary");
    head.append(element("span", status, "status"), element("span", first));
    inner.append(head, ...rest.map((each) => element("p", each)));
    if (content) inner.append(element("pre", shape(content.schema, all)));
    box.append(inner);
  }
  return box;
}

fetch("/openapi.json").then((answer) => answer.json()).then((told) => {
  const all = told.components || {};
  const groups = new Map();
  for (const [path, methods] of Object.entries(told.paths)) {
    for (const [method, each] of Object.entries(methods)) {
      const tag = (each.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(method, path, each, all));
    }
  }
  place.textContent = "";
  for (const [tag, boxes] of groups) {
    const section = element("section");
    section.append(element("h2", tag), ...boxes);
    place.append(section);
  }
}).catch(() => { place.textContent = "Could not load the API description."; });

find.addEventListener("input", () => {
  const words = find.value.trim().toLowerCase();
  let found = 0;
  for (const section of place.querySelectorAll("section")) {
    let shown = 0;
    for (const box of section.querySelectorAll(":scope > details")) {
      box.hidden = !box.dataset.words.includes(words);
      shown += !box.hidden;
    }
    section.hidden = shown === 0;
    found += shown;
  }
  none.textContent = found ? "" : "No matching paths.";
});
