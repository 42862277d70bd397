"""What is asked for of an SMTP server, what is shown of it, and what people choose from: providers that are used by SMTP."""

from dataclasses import replace

from fairpost.model.transport import Security
from fairpost.transports.described import HAS_SECRET, SECRET_BYTES_MAX, Choice, Entry, Setting, SignIn
from fairpost.transports.oauth.described import OAUTH, sign_in
from fairpost.transports.oauth.settings import OauthKind

ASKED = (
    Setting(name="host", is_needed=True, chars_min=1, chars_max=253),
    Setting(name="port", type=int, least=1, most=65_535, about="[default: 465, 587 or 25, by `security`]"),
    Setting(name="security", type=Security, default=Security.STARTTLS, about="With a login: `implicit` or `starttls`."),
    Setting(name="user", chars_min=1, chars_max=500, about="Null: no login."),
    Setting(name="password", is_secret=True, chars_max=SECRET_BYTES_MAX),
    Setting(name="oauth", type=OAUTH),
)
SHOWN = (
    Setting(name="host", is_needed=True),
    Setting(name="port", type=int, is_needed=True),
    Setting(name="security", type=Security, is_needed=True),
    Setting(name="user"),
    replace(HAS_SECRET, about="Whether a password or a token was given."),
    Setting(name="oauth", type=OauthKind, about="Null: it logs in with a password, or without a login."),
    Setting(name="client_id"),
    Setting(name="tenant"),
)

_SERVER = (
    Entry(
        setting="host",
        label="Server",
        is_needed=True,
        placeholder="smtp.example.com",
        hint="Providers call it SMTP server, or server for outgoing mail.",
    ),
    Entry(setting="port", label="Port", hint="Left empty: the usual one."),
    Entry(
        setting="security",
        label="Encryption",
        options=(
            (Security.STARTTLS, "STARTTLS, usually port 587"),
            (Security.IMPLICIT, "TLS from the beginning, usually port 465"),
            (Security.OFFERED, "TLS if it is offered, without a login only"),
            (Security.NONE, "none, without a login only"),
        ),
    ),
)
_USER = Entry(setting="user", label="User", hint="Left empty: the address above.")


def _password(hint: str, *, hosts: tuple[str, ...] = ()) -> SignIn:
    password = Entry(setting="password", label="Password", is_needed=True, hint=hint)
    return SignIn(name="password", title="a password", entries=(*_SERVER, _USER, password), user="user", hosts=hosts)


def _tokens(kind: OauthKind) -> SignIn:
    usual = sign_in(kind)
    return SignIn(name=usual.name, title=usual.title, entries=(*_SERVER, _USER, *usual.entries), fixed=usual.fixed)


CHOICES = (
    Choice(
        name="google",
        title="Google by SMTP",
        about="With an app password, which is the quickest for a single mailbox, or with tokens.",
        presets=("gmail", "workspace"),
        sign_ins=(
            _password(
                "An app password: turn on two-step verification, then make one at myaccount.google.com/apppasswords. "
                "Google takes no other.",
                hosts=(".gmail.com", ".google.com"),
            ),
            _tokens(OauthKind.GOOGLE_SERVICE_ACCOUNT),
            _tokens(OauthKind.GOOGLE_PERSON),
        ),
    ),
    Choice(
        name="microsoft",
        title="Microsoft",
        about="Microsoft 365 and Outlook.com, by SMTP with tokens: Microsoft takes no passwords any more.",
        presets=("microsoft365", "outlook", "hotmail"),
        sign_ins=(_tokens(OauthKind.MICROSOFT_CLIENT), _tokens(OauthKind.MICROSOFT_PERSON)),
    ),
    Choice(
        name="smtp",
        title="Another SMTP server",
        about="Any other provider, or a relay of your own.",
        presets=("custom", "relay", "yahoo"),
        sign_ins=(
            _password("That of the mailbox, or one that the provider makes for programs."),
            SignIn(name="none", title="nothing: it wants no login", entries=_SERVER, fixed={"user": None}),
        ),
    ),
)
