"""SMTP settings, as they appear in requests and responses, and the choice of providers on the page."""

from dataclasses import replace

from fairpost.model.transport import Security
from fairpost.providers.presets import CUSTOM
from fairpost.transports.described import HAS_SECRET, READ, READ_ENTRY, SECRET_BYTES_MAX, Choice, Entry, Setting, SignIn
from fairpost.transports.oauth.described import OAUTH, sign_in
from fairpost.transports.oauth.settings import OauthKind

ASKED = (
    Setting(name="host", is_needed=True, chars_min=1, chars_max=253),
    Setting(name="port", type=int, least=1, most=65_535, about="[default: 465, 587 or 25, depending on `security`]"),
    Setting(
        name="security",
        type=Security,
        default=Security.STARTTLS,
        about="With a login, this must be `implicit` or `starttls`.",
    ),
    Setting(name="user", chars_min=1, chars_max=500, about="Null means no login."),
    Setting(name="password", is_secret=True, chars_max=SECRET_BYTES_MAX),
    Setting(name="oauth", type=OAUTH),
    READ,
    Setting(
        name="imap",
        chars_max=4_000,
        about="URL of the mailbox, for example `imaps://imap.example.com`. Null means the provider's usual server.",
    ),
)
SHOWN = (
    Setting(name="host", is_needed=True),
    Setting(name="port", type=int, is_needed=True),
    Setting(name="security", type=Security, is_needed=True),
    Setting(name="user"),
    replace(HAS_SECRET, about="Whether a password or a token is set."),
    Setting(name="oauth", type=OauthKind, about="Null if the account logs in with a password or not at all."),
    Setting(name="client_id"),
    Setting(name="tenant"),
    Setting(name="read", type=bool, is_needed=True, about="Whether the mailbox is read."),
    Setting(name="imap", about="URL of the mailbox. Null means the provider's usual server."),
)

_SERVER = (
    Entry(
        setting="host",
        label="Server",
        is_needed=True,
        placeholder="smtp.example.com",
        hint="Providers call this the SMTP server or outgoing mail server.",
    ),
    Entry(setting="port", label="Port", hint="Leave empty for the usual port."),
    Entry(
        setting="security",
        label="Encryption",
        options=(
            (Security.STARTTLS, "STARTTLS, usually port 587"),
            (Security.IMPLICIT, "Implicit TLS, usually port 465"),
            (Security.OFFERED, "TLS if offered; only without a login"),
            (Security.NONE, "none; only without a login"),
        ),
    ),
)
_READING = (
    READ_ENTRY,
    Entry(
        setting="imap",
        label="Mailbox server",
        placeholder="imaps://imap.example.com",
        hint="Leave empty for the provider’s usual IMAP server.",
    ),
)
_USER = Entry(setting="user", label="User", hint="Leave empty for the address above.")


def _password(hint: str, *, hosts: tuple[str, ...] = ()) -> SignIn:
    password = Entry(setting="password", label="Password", is_needed=True, hint=hint)
    return SignIn(
        name="password", title="a password", entries=(*_SERVER, _USER, password, *_READING), user="user", hosts=hosts
    )


def _tokens(kind: OauthKind) -> SignIn:
    usual = sign_in(kind)
    return SignIn(
        name=usual.name, title=usual.title, entries=(*_SERVER, _USER, *usual.entries, *_READING), fixed=usual.fixed
    )


CHOICES = (
    Choice(
        name="google",
        title="Google by SMTP",
        about="Signs in with an app password (the quickest way for a single mailbox) or with tokens.",
        preset="gmail",
        sign_ins=(
            _password(
                "An app password: turn on two-step verification, then create one at myaccount.google.com/apppasswords. Google accepts no other password.",
                hosts=(".gmail.com", ".google.com"),
            ),
            _tokens(OauthKind.GOOGLE_SERVICE_ACCOUNT),
            _tokens(OauthKind.GOOGLE_PERSON),
        ),
    ),
    Choice(
        name="microsoft",
        title="Microsoft",
        about="Microsoft 365 and Outlook.com, by SMTP with tokens: Microsoft no longer accepts passwords.",
        preset="microsoft365",
        sign_ins=(_tokens(OauthKind.MICROSOFT_CLIENT), _tokens(OauthKind.MICROSOFT_PERSON)),
    ),
    Choice(
        name="smtp",
        title="Another SMTP server",
        about="Any other provider, or your own relay.",
        preset=CUSTOM,
        sign_ins=(
            _password("The mailbox's password, or an app password from the provider."),
            SignIn(name="none", title="none: no login is required", entries=_SERVER, fixed={"user": None}),
        ),
    ),
)
