"""Gmail API settings, as they appear in requests and responses, and the choices on the page."""

from fairpost.transports.described import HAS_SECRET, READ, READ_ENTRY, Choice, Entry, Setting, SignIn
from fairpost.transports.oauth.described import OAUTH, sign_in
from fairpost.transports.oauth.settings import OauthKind

ASKED = (
    Setting(name="oauth", type=OAUTH, is_needed=True, about="How to get access tokens. Only Google kinds are allowed."),
    Setting(
        name="subject",
        chars_max=320,
        about="Mailbox that a service account acts for. Null means the account's address.",
    ),
    READ,
)
SHOWN = (
    Setting(name="oauth", type=OauthKind, is_needed=True),
    Setting(name="client_id"),
    Setting(name="subject"),
    HAS_SECRET,
    Setting(name="read", type=bool, is_needed=True, about="Whether the mailbox is read."),
)
_SUBJECT = Entry(
    setting="subject", label="Mailbox to act for", input="email", hint="Leave empty for the address above."
)
_SERVICE = sign_in(OauthKind.GOOGLE_SERVICE_ACCOUNT)
_PERSON = sign_in(OauthKind.GOOGLE_PERSON)
CHOICES = (
    Choice(
        name="gmail-api",
        title="Gmail API",
        about="For Google mailboxes. If a connection is lost, Fairpost can ask Google whether an e-mail was sent, so no e-mail is sent twice.",
        preset="workspace",
        sign_ins=(
            SignIn(
                name=_SERVICE.name,
                title=_SERVICE.title,
                entries=(*_SERVICE.entries, _SUBJECT, READ_ENTRY),
                fixed=_SERVICE.fixed,
            ),
            SignIn(name=_PERSON.name, title=_PERSON.title, entries=(*_PERSON.entries, READ_ENTRY), fixed=_PERSON.fixed),
        ),
    ),
)
