// The kinds of account that there are: at which provider, how they sign in, and what has to be known for that and where one finds it.

import { SECURITY } from "../account-parts.js";

// `place`: what the API calls such a server. `presets`: whose limits fit. `logins`: how it can sign in. The usual one comes first.
export const PROVIDERS = [
  { name: "gmail-api", title: "Gmail API", place: "gmail", presets: ["workspace", "gmail-api"], logins: ["google-service-account", "google-refresh-token"],
    about: "For mailboxes of Google. When a connection breaks, Google can be asked whether an e-mail went out, so nobody gets it twice." },
  { name: "google", title: "Google by SMTP", place: "smtp", presets: ["gmail", "workspace"], logins: ["password", "google-service-account", "google-refresh-token"],
    about: "With an app password, which is the quickest for a single mailbox, or with tokens." },
  { name: "microsoft", title: "Microsoft", place: "smtp", presets: ["microsoft365", "outlook", "hotmail"], logins: ["microsoft-client", "microsoft-refresh-token"],
    about: "Microsoft 365 and Outlook.com, by SMTP with tokens: Microsoft takes no passwords any more." },
  { name: "smtp", title: "Another SMTP server", place: "smtp", presets: ["custom", "relay", "yahoo"], logins: ["password", "none"],
    about: "Any other provider, or a relay of your own." },
];

export const LOGINS = {
  password: "a password",
  none: "nothing: it wants no login",
  "google-service-account": "a service account of a Google Workspace",
  "google-refresh-token": "a refresh token of a person who allowed it",
  "microsoft-client": "an application of the organisation",
  "microsoft-refresh-token": "a refresh token of a person who allowed it",
};

export const hasTokens = (login) => login in TOKENS;
export const isSecret = (name) => /\.(password|client_secret|refresh_token|key)$/.test(name);

// Of a server that an account has.
export const loginOf = (server) => server.oauth ?? (server.user ? "password" : "none");

export function providerOf(server) {
  if (server?.kind === "gmail") return PROVIDERS[0];
  if (server?.oauth?.startsWith("microsoft")) return PROVIDERS[2];
  return server && (server.oauth || (server.user && /\.(gmail|google)\.com$/.test(server.host))) ? PROVIDERS[1] : PROVIDERS[3];
}

// `server`: what it has, or what the provider is known to have. `isKept`: its secrets stay where nothing is typed.
export function serverFields({ name, place }, login, server, isKept) {
  const secret = (each) => (isSecret(each.name) ? { ...each, required: each.required && !isKept, hint: isKept ? `${each.hint} Left empty: what it has stays.` : each.hint } : each);
  const tokens = (TOKENS[login] ?? []).map((each) => ({ maxlength: 200, autocomplete: "off", value: server?.[each.name] ?? "", ...each, name: `${place}.oauth.${each.name}` }));
  const more = login === "google-service-account" && place === "gmail" ? [{ ...SUBJECT, value: server?.subject ?? "" }] : [];
  if (place === "gmail") return [...tokens, ...more].map(secret);
  const user = { name: "smtp.user", label: "User", value: server?.user ?? "", maxlength: 500, autocomplete: "off", hint: "Left empty: the address above." };
  const password = { ...SECRET, name: "smtp.password", label: "Password", required: true, hint: name === "google" ? APP_PASSWORD : "That of the mailbox, or one that the provider makes for programs." };
  return [...hostFields(server), ...(login === "none" ? [] : [user]), ...(login === "password" ? [password] : []), ...tokens].map(secret);
}

const hostFields = (server) => [
  { name: "smtp.host", label: "Server", value: server?.host ?? "", required: true, maxlength: 253, placeholder: "smtp.example.com", autocomplete: "off", hint: "Providers call it SMTP server, or server for outgoing mail." },
  { name: "smtp.port", label: "Port", type: "number", min: 1, max: 65535, value: server?.port ?? "", hint: "Left empty: the usual one." },
  { name: "smtp.security", label: "Encryption", options: SECURITY, value: server?.security ?? "starttls" },
];

const SECRET = { type: "password", autocomplete: "new-password", maxlength: 10000, value: "" };
const SUBJECT = { name: "gmail.subject", label: "Mailbox that it acts for", type: "email", maxlength: 320, autocomplete: "off", hint: "Left empty: the address above." };
const APP_PASSWORD = "An app password: turn on two-step verification, then make one at myaccount.google.com/apppasswords. Google takes no other.";
const ID = { required: true, pattern: "\\s*[A-Za-z0-9][A-Za-z0-9._\\-]*\\s*", title: "Letters, digits, dots and dashes" };
const GOOGLE_CLIENT = "Google Cloud console → APIs & Services → Credentials → OAuth 2.0 client IDs.";
const ENTRA = "Entra admin center → App registrations → your application";

const TOKENS = {
  "google-service-account": [
    { name: "key", label: "Key file", type: "file", accept: ".json,application/json", required: true, value: "", hint: "Google Cloud console → IAM & Admin → Service accounts → Keys → Add key → JSON. Then, in the Admin console → Security → API controls → Domain-wide delegation, allow its client id the scope https://mail.google.com/." },
  ],
  "google-refresh-token": [
    { ...ID, name: "client_id", label: "Client ID", hint: GOOGLE_CLIENT },
    { ...SECRET, name: "client_secret", label: "Client secret", hint: "Beside the client ID, where the client has one." },
    { ...SECRET, name: "refresh_token", label: "Refresh token", required: true, hint: "What your program got when the person allowed it the scope https://mail.google.com/." },
  ],
  "microsoft-client": [
    { ...ID, name: "tenant", label: "Directory (tenant) ID", hint: `${ENTRA} → Overview. A domain of the organisation will do.` },
    { ...ID, name: "client_id", label: "Application (client) ID", hint: `${ENTRA} → Overview. It needs the permission SMTP.SendAsApp, and access to the mailbox.` },
    { ...SECRET, name: "client_secret", label: "Client secret", required: true, hint: `${ENTRA} → Certificates & secrets → New client secret: its value, not its ID.` },
  ],
  "microsoft-refresh-token": [
    { ...ID, name: "tenant", label: "Directory (tenant) ID", hint: `${ENTRA} → Overview. Of Outlook.com: consumers.` },
    { ...ID, name: "client_id", label: "Application (client) ID", hint: `${ENTRA} → Overview.` },
    { ...SECRET, name: "client_secret", label: "Client secret", hint: "Certificates & secrets, where the application has one: its value, not its ID." },
    { ...SECRET, name: "refresh_token", label: "Refresh token", required: true, hint: "What your program got when the person allowed it the scopes https://outlook.office.com/SMTP.Send and offline_access." },
  ],
};
