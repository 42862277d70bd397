// One e-mail: its history, what it is waiting for, and its content. If the e-mail is in doubt, the user decides here.

import { get, post, SERVICE } from "../ask.js";
import { h } from "../dom.js";
import { button, columns, confirmed, countdown, facts, heading, link, mailFrame, moment, panel, state, table, tell, to, toneOf } from "../parts.js";
import { bytes, told, words } from "../format.js";
import { FINAL, RETRYABLE, WAITING } from "../model.js";

const REMOTE = /(src|background)\s*=\s*["']?https?:|url\(\s*["']?https?:/i;

export default {
  title: "E-mail",
  topic: ({ data, params }) => (data && !FINAL.includes(data.email.state) ? ["email", { name: params.id }] : null),

  async load(ctx) {
    if (ctx.is("admin") && !ctx.workspace) return goToItsWorkspace(ctx);
    const path = `/v1/emails/${ctx.params.id}`;
    try {
      const [email, life] = await Promise.all([get(path, { pictures: true }), get(`${path}/life`)]);
      ctx.live = null; // the loaded data is newer
      return { email, life };
    } catch (error) {
      if (error.status === 404 && ctx.is("admin")) return goToItsWorkspace(ctx);
      throw error;
    }
  },

  view(ctx) {
    if (!ctx.data) return null;
    const email = { ...ctx.data.email, ...ctx.live?.email };
    const life = ctx.live?.life ?? ctx.data.life;
    if (FINAL.includes(email.state) && !FINAL.includes(ctx.data.email.state)) ctx.reload(); // the e-mail now has a Message-ID
    return [
      h("p.quiet", link("/emails", "E-mails"), " › ", email.id),
      heading(subject(email), ctx.is("sender", "manager", "admin") && actions(ctx, email)),
      h("p.summary", state(email.state), h("span", "to ", email.recipients.map(({ address }) => address).join(", ")), email.from && h("span", "from ", email.from.address), h("span", "in ", ctx.workspace)),
      life.doubt && doubt(ctx, email, life.doubt),
      obstacles(life),
      columns(h("div", panel("History", timeline(life.moments)), content(ctx, email)), h("div", head(email), parts(email), ids(email))),
    ];
  },
};

// Admins can open an e-mail from any workspace.
async function goToItsWorkspace(ctx) {
  const { workspace } = await get(`/v1/admin/emails/${ctx.params.id}`);
  if (workspace === SERVICE) throw new Error("This e-mail was sent by Fairpost itself and cannot be opened, because it may contain a sign-in link or code.");
  if (workspace === ctx.workspace) throw new Error("Could not open this e-mail.");
  ctx.go(location.pathname, { workspace }, { replace: true });
  return null;
}

function subject({ subject: written, filled }) {
  if (written === null) return "(content no longer stored)";
  return (filled?.subject ?? written) || "(no subject)";
}

// ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

const path = (email, verb) => `/v1/emails/${email.id}/${verb}`;

function actions(ctx, email) {
  if (WAITING.includes(email.state)) return button("Cancel", () => cancel(ctx, email), { tone: "danger" });
  if (RETRYABLE.includes(email.state)) return button("Retry", () => retry(ctx, email));
  return null;
}

async function cancel(ctx, email) {
  const isDone = await confirmed("Cancel this e-mail?", {
    text: "The e-mail will not be sent. You cannot undo this.",
    yes: "Cancel e-mail",
    act: () => post(path(email, "cancel"), { reason: "Cancelled from the dashboard" }),
    done: "E-mail cancelled.",
  });
  if (isDone) await ctx.reload();
}

async function retry(ctx, email) {
  const isDone = await confirmed("Retry this e-mail?", {
    text: "The e-mail is queued again for recipients who have not received it. The number of attempts is reset to 0.",
    yes: "Retry",
    tone: "main",
    act: () => post(path(email, "retry")),
    done: "E-mail queued.",
  });
  if (isDone) await ctx.go(location.pathname, {}, { replace: true }); // the page is now live
}

// ── in doubt ────────────────────────────────────────────────────────────────────────────────────────────

const CHOICES = {
  sent: { name: "Mark as sent", ask: "Mark as sent?", tone: "main", done: "Marked as sent." },
  resend: { name: "Send again", ask: "Send again?", tone: "", done: "Queued to be sent again." },
  failed: { name: "Mark as failed", ask: "Mark as failed?", tone: "", done: "Marked as failed." },
};

function doubt(ctx, email, { begun_at, account, attempt, reached, said, asked, policy, message_id_begins, choices }) {
  const decide = async ({ decision, means }) => {
    const { name, ask, tone, done } = CHOICES[decision];
    const isDone = await confirmed(ask, { text: means, yes: name, tone: tone || "danger", act: () => post(path(email, "resolve"), { decision }), done });
    if (isDone) await ctx.reload();
  };
  const choice = (each) => h("li", { "data-key": each.decision }, button(CHOICES[each.decision].name, () => decide(each), { tone: CHOICES[each.decision].tone }), h("span", each.means));
  const known = [
    ["What happened", [`${sentence(reached)}. Attempt ${attempt}, `, moment(begun_at), account && [", account ", account], "."]],
    said && ["Server reply", h("q", said)],
    ["Evidence", asked],
    ["Automatic action", policy],
    ["Where to look", ["The recipient's mailbox or the account's sent mail. The e-mail was sent if you find a copy with a Message-ID that begins with ", h("code", message_id_begins)]],
  ];
  return h("section.panel.doubt", { "data-key": "doubt", "aria-label": "In doubt" }, h("h2", "It is unknown whether this e-mail was sent"), facts(known),
    ctx.is("sender", "manager", "admin") ? h("ul.decisions", choices.map(choice)) : h("p.quiet", "Only senders, managers and admins can resolve this."));
}

// ── timeline ────────────────────────────────────────────────────────────────────────────────────────────

function obstacles({ stands_in_the_way: all }) {
  if (!all.length) return null;
  const one = ({ kind, words: text, until }) => h("li", { "data-key": kind + text }, h("p", sentence(text), until && [": ", countdown(until)]));
  return h("section.headline.wait", { "data-key": "obstacles", "aria-label": "Waiting for" }, h("h2", "Waiting for"), h("ul.reasons", all.map(one)));
}

function timeline(moments) {
  const one = (each, n) => {
    const { kind, at, words: text, account, outcome } = each;
    const isAhead = at && new Date(at) > Date.now();
    return h("li", { class: toneOf(outcome ?? kind), "data-key": `${n} ${kind}` },
      h("p", sentence(text), account && kind !== "ended" && [" (", account, ")"]),
      h("p.quiet", at === null ? "time unknown" : [moment(at), isAhead && [", ", countdown(at)]]),
      reply(each),
      each.recipients.filter(({ code, reply: said }) => code >= 400 && said !== each.reply).map((said) => reply(said, said.address)));
  };
  return h("ol.timeline", moments.map(one));
}

function reply({ code, reply: text, meaning }, address = null) {
  if (code === null && !text) return null;
  return h("div.reply", { "data-key": address }, address && h("p", address), h("p.mono", [code, text].filter(Boolean).join(" ")), meaning && h("p.quiet", sentence(meaning)));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// ── details ─────────────────────────────────────────────────────────────────────────────────────────────

const mailbox = (box) => (box ? (box.name ? `${box.name} <${box.address}>` : box.address) : null);

function head(email) {
  const recipients = (wanted) => email.recipients.filter(({ kind }) => kind === wanted).map((each) => h("div", h("a", { href: to("/emails", { q: each.address }) }, mailbox(each))));
  const kinds = ["to", "cc", "bcc"].map((kind) => [sentence(kind), recipients(kind)]).filter(([, all]) => all.length);
  return panel("Details", facts([
    ...kinds,
    ["From", mailbox(email.from) ?? "the sending account's address"],
    email.reply_to && ["Reply to", mailbox(email.reply_to)],
    email.reason && ["Reason", email.reason],
    email.user && ["User", h("a", { href: to("/emails", { user: email.user }) }, email.user)],
    email.account && ["Account", email.account],
    ["Class", email.class],
    ["Attempts", `${email.attempts} of ${email.attempts_max}`],
    ["Accepted", moment(email.created_at)],
    email.due_at && ["Due", moment(email.due_at)],
    email.expires_at && ["Expires", moment(email.expires_at)],
    email.finished_at && ["Ended", moment(email.finished_at)],
  ]));
}

function content(ctx, email) {
  if (email.subject === null) return panel("Content", h("p.quiet", "The content is no longer stored."));
  const { text, html } = email.filled ?? email;
  const images = ctx.state.images ?? false;
  const toggle = () => {
    ctx.state.images = !images;
    ctx.show();
  };
  return panel("Content",
    html && mailFrame(html, { key: email.id, images }),
    html && REMOTE.test(html) && h("p.under", button(images ? "Hide images" : "Show images", toggle), h("small", "If you load images from other servers, those servers can tell that the e-mail was opened.")),
    html && text ? h("details", { "data-key": "text" }, h("summary", "Plain text"), h("pre", { tabindex: 0 }, text)) : text && h("pre", { tabindex: 0 }, text),
    email.filled && h("details", { "data-key": "places" }, h("summary", "Source with placeholders"), h("pre", { tabindex: 0 }, [email.subject, email.text ?? email.html].join("\n\n"))));
}

function parts(email) {
  const rows = (all) => Object.entries(all).map(([name, value]) => [name, told(value)]);
  const part = (name, all, shown) => all.length > 0 && h("details", { "data-key": name }, h("summary", `${name} (${all.length})`), shown(all));
  const found = [
    part("Attachments", email.attachments, (all) => table("Attachments", ["File", "Type", ">Size"], all.map((file, n) => ({ key: String(n), cells: [file.filename, file.content_type, bytes(file.bytes)] })))),
    part("Fields", rows(email.fields), facts),
    part("Metadata", rows(email.metadata), facts),
    part("Headers", rows(email.headers), facts),
  ].filter(Boolean);
  return found.length ? panel("Attachments and data", found) : null;
}

function ids(email) {
  const known = [["ID", email.id], ["Idempotency key", email.idempotency_key], ["Message-ID", email.message_id], ["Thread", email.thread_id], ["Stream", email.stream], ["Type", email.type], ...Object.entries(email.tags).map(([name, value]) => [`Tag ${name}`, value])];
  return panel("Identifiers", facts(known.filter(([, value]) => value).map(([name, value]) => [name, [h("span.mono", value), " ", button("Copy", () => copy(value), { tone: "small", label: `Copy: ${words(name)}` })]])));
}

async function copy(value) {
  if (!navigator.clipboard) throw new Error("Your browser allows copying only on HTTPS pages. Select the text and copy it.");
  await navigator.clipboard.writeText(value);
  tell("Copied.");
}
