// Reply-To and headers for a template or a campaign, as form fields and as request fields.

export const headerInputs = (data) => [
  { name: "reply_to", label: "Reply-To", value: written(data?.reply_to), maxlength: 600, hint: "The address for replies, for example Ann Lee <ann@example.com>. Leave empty to use the sender's address." },
  { name: "headers", label: "Headers", type: "textarea", rows: 2, value: Object.entries(data?.headers ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n"), hint: "One per line, for example X-Team: sales." },
];

export const headerBody = ({ reply_to, headers }) => ({
  reply_to: reply_to.trim() || null,
  headers: Object.fromEntries(headers.split("\n").map((line) => line.trim()).filter(Boolean).map(split)),
});

function split(line) {
  const [name, ...value] = line.split(":");
  if (!value.length) throw new Error(`“${line}” is not a header. Use a format such as X-Team: sales.`);
  return [name.trim(), value.join(":").trim()];
}

const written = (mailbox) => (!mailbox ? "" : mailbox.name ? `"${mailbox.name.replace(/["\\]/g, "\\$&")}" <${mailbox.address}>` : mailbox.address);
