// How the workspace appears to recipients, and its rules for launching campaigns.

import { get, patch } from "../../ask.js";
import { form } from "../../form.js";
import { panel, tell } from "../../parts.js";

const PATH = "/v1/workspace";

export default {
  load: () => get(PATH),

  view(ctx) {
    const { name, settings } = ctx.data;
    const mayChange = ctx.is("manager", "admin");
    const fields = [
      { name: "title", label: "Name for recipients", value: settings.title ?? "", maxlength: 100, placeholder: name },
      { name: "accent", label: "Colour", value: settings.accent ?? "", maxlength: 7, pattern: "#[0-9A-Fa-f]{6}", title: "Use the format #1d5fd1", placeholder: "#1d5fd1", hint: "The colour of the button on the unsubscribe page." },
      { name: "logo_url", label: "Logo", type: "url", value: settings.logo_url ?? "", maxlength: 500, placeholder: "https://example.com/logo.png", hint: "The HTTPS URL of an image. The image is displayed 40 pixels high." },
      { name: "refuses_bad_domains", label: "Refuse to launch campaigns from domains that failed a check", type: "checkbox", value: settings.refuses_bad_domains, hint: "Otherwise, launching from such a domain only shows a warning." },
    ].map((each) => (mayChange ? each : { ...each, readonly: true, disabled: each.type === "checkbox" }));
    return panel("General", form("general", fields, { yes: mayChange ? "Save" : null, act: mayChange ? (entered) => save(ctx, entered) : null }));
  },
};

async function save(ctx, { title, accent, logo_url, refuses_bad_domains }) {
  const given = (text) => text.trim() || null;
  await patch(PATH, { title: given(title), accent: given(accent.toLowerCase()), logo_url: given(logo_url), refuses_bad_domains });
  tell("Settings saved.");
  await ctx.reload();
}
