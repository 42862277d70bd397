"""What is asked for of a mailbox of the Gmail API, what is shown of it, and what people choose."""

from fairpost.transports.described import HAS_SECRET, Choice, Entry, Setting, SignIn
from fairpost.transports.oauth.described import OAUTH, sign_in
from fairpost.transports.oauth.settings import OauthKind

ASKED = (
    Setting(name="oauth", type=OAUTH, is_needed=True, about="A Google kind."),
    Setting(
        name="subject", chars_max=320, about="The mailbox that a service account acts for. Null: the account's address."
    ),
)
SHOWN = (
    Setting(name="oauth", type=OauthKind, is_needed=True),
    Setting(name="client_id"),
    Setting(name="subject"),
    HAS_SECRET,
)
_SUBJECT = Entry(
    setting="subject", label="Mailbox that it acts for", input="email", hint="Left empty: the address above."
)
_SERVICE = sign_in(OauthKind.GOOGLE_SERVICE_ACCOUNT)
CHOICES = (
    Choice(
        name="gmail-api",
        title="Gmail API",
        about="For mailboxes of Google. When a connection breaks, Google can be asked whether an e-mail went out, so nobody "
        "gets it twice.",
        presets=("workspace", "gmail-api"),
        sign_ins=(
            SignIn(
                name=_SERVICE.name,
                title=_SERVICE.title,
                entries=(*_SERVICE.entries, _SUBJECT),
                fixed=_SERVICE.fixed,
            ),
            sign_in(OauthKind.GOOGLE_PERSON),
        ),
    ),
)
