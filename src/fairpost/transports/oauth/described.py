"""Settings for signing in with tokens: what they mean, which of them each kind needs, and where to find their values."""

from fairpost.transports.described import SECRET_BYTES_MAX, Entry, Group, Setting, SignIn
from fairpost.transports.oauth.settings import OauthKind

KEY_BYTES_MAX = 65_536  # Google's key files are about 2.4 KB
_ID = r"[A-Za-z0-9][A-Za-z0-9._\-]{0,199}"
_ID_WORDS = "Letters, digits, dots and dashes"

OAUTH = Group(
    name="OauthIn",
    about="The kind decides which of these are required; omit the others.",
    settings=(
        Setting(name="kind", type=OauthKind, is_needed=True),
        Setting(name="client_id", pattern=_ID, chars_max=200, about="ID or secret of the registered application."),
        Setting(
            name="tenant",
            pattern=_ID,
            chars_max=200,
            about="Your Microsoft directory (tenant) ID, or one of its domains.",
        ),
        Setting(
            name="client_secret",
            is_secret=True,
            chars_max=SECRET_BYTES_MAX,
            about="ID or secret of the registered application.",
        ),
        Setting(
            name="refresh_token",
            is_secret=True,
            chars_max=SECRET_BYTES_MAX,
            about="Refresh token granted by a user.",
        ),
        Setting(
            name="key",
            is_secret=True,
            chars_max=KEY_BYTES_MAX,
            about="A Google service account's key file, as text.",
        ),
    ),
)

# The required and optional settings of each kind.
NEEDED = {
    OauthKind.GOOGLE_SERVICE_ACCOUNT: ("key",),
    OauthKind.GOOGLE_PERSON: ("client_id", "refresh_token"),
    OauthKind.MICROSOFT_CLIENT: ("client_id", "tenant", "client_secret"),
    OauthKind.MICROSOFT_PERSON: ("client_id", "tenant", "refresh_token"),
}
ALLOWED = {kind: (*names, "client_secret") if kind.has_refresh_token else names for kind, names in NEEDED.items()}


def sign_in(kind: OauthKind) -> SignIn:
    return SignIn(name=kind, title=_TITLES[kind], entries=_ENTRIES[kind], fixed={"oauth.kind": kind})


_TITLES = {
    OauthKind.GOOGLE_SERVICE_ACCOUNT: "a Google Workspace service account",
    OauthKind.GOOGLE_PERSON: "a refresh token granted by a user",
    OauthKind.MICROSOFT_CLIENT: "an application of the organisation",
    OauthKind.MICROSOFT_PERSON: "a refresh token granted by a user",
}
_ENTRA = "Entra admin center → App registrations → your application"


def _entry(kind: OauthKind, name: str, label: str, hint: str) -> Entry:
    is_id = name in ("client_id", "tenant")
    return Entry(
        setting=f"oauth.{name}",
        label=label,
        hint=hint,
        is_needed=name in NEEDED[kind],
        explained=_ID_WORDS if is_id else "",
        input="file" if name == "key" else "",
        accept=".json,application/json" if name == "key" else "",
    )


def _entries(kind: OauthKind, *given: tuple[str, str, str]) -> tuple[Entry, ...]:
    return tuple([_entry(kind, *each) for each in given])


_ENTRIES = {
    OauthKind.GOOGLE_SERVICE_ACCOUNT: _entries(
        OauthKind.GOOGLE_SERVICE_ACCOUNT,
        (
            "key",
            "Key file",
            "Google Cloud console → IAM & Admin → Service accounts → Keys → Add key → JSON. Then, in the Admin console → "
            "Security → API controls → Domain-wide delegation, grant its client ID the scope https://mail.google.com/.",
        ),
    ),
    OauthKind.GOOGLE_PERSON: _entries(
        OauthKind.GOOGLE_PERSON,
        (
            "client_id",
            "Client ID",
            "Google Cloud console → APIs & Services → Credentials → OAuth 2.0 client IDs.",
        ),
        ("client_secret", "Client secret", "Next to the client ID. Leave empty if the client has no secret."),
        (
            "refresh_token",
            "Refresh token",
            "The token that your program received when the user granted the scope https://mail.google.com/.",
        ),
    ),
    OauthKind.MICROSOFT_CLIENT: _entries(
        OauthKind.MICROSOFT_CLIENT,
        ("tenant", "Directory (tenant) ID", f"{_ENTRA} → Overview. A domain of the organisation also works."),
        (
            "client_id",
            "Application (client) ID",
            f"{_ENTRA} → Overview. The application needs the permission SMTP.SendAsApp and access to the mailbox.",
        ),
        (
            "client_secret",
            "Client secret",
            f"{_ENTRA} → Certificates & secrets → New client secret. Enter the secret's value, not its ID.",
        ),
    ),
    OauthKind.MICROSOFT_PERSON: _entries(
        OauthKind.MICROSOFT_PERSON,
        ("tenant", "Directory (tenant) ID", f"{_ENTRA} → Overview. For Outlook.com, enter: consumers."),
        ("client_id", "Application (client) ID", f"{_ENTRA} → Overview."),
        (
            "client_secret",
            "Client secret",
            "Certificates & secrets: the value of the client secret, not its ID. Leave empty if the application has no secret.",
        ),
        (
            "refresh_token",
            "Refresh token",
            "The token that your program received when the user granted the scopes https://outlook.office.com/SMTP.Send and offline_access.",
        ),
    ),
}
