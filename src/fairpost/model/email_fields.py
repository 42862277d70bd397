"""The fields of a submitted e-mail. The type, default and limits of each field are described once.

The HTTP model, the Python names and conversions, and the table in the docs are derived from these descriptions. Only
`fairpost.check_email` validates e-mails (sql/accept/check_email.sql); a test compares it with the limits here.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

ADDRESS, ADDRESSES, MOMENT = "an address", "an address or a list of them", "time with a time zone"
BODY_BYTES_MAX = 10_485_760
RECIPIENTS_MAX = 50
# limits for the parts of a field
ADDRESS_BYTES_MAX = 254
DISPLAY_NAME_CHARS_MAX = 256
MAILBOX_CHARS_MAX = 1_000  # for an address with its display name in one HTTP string: quotes and escapes take up space
HEADER_NAME = "[!-9;-~]{1,100}"
HEADER_BYTES_MAX = 8_192
FILENAME_CHARS_MAX = 255
MEDIA_TYPE = "[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}"
INLINE_ID = "[A-Za-z0-9._@+-]{1,200}"
EMAIL_TYPE = "[A-Za-z0-9][A-Za-z0-9_.:-]{0,149}"
TAG_NAME = "[A-Za-z0-9_.-]{1,50}"
TAG_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailField:
    """A field. `name` is its name in SQL and over HTTP. A field with a character limit is one line without control
    characters.
    """

    name: str
    type: str = "string"
    python: str = ""  # if the field has a different name in Python
    python_type: str = ""  # if the field has a different type in Python
    default: str = ""
    chars_min: int = 0
    chars_max: int | None = None
    bytes_max: int | None = None
    ge: int | None = None
    le: int | None = None
    count_max: int | None = None
    choices: tuple[str, ...] = ()
    more: str = ""  # further conditions
    help: str
    is_over_http: bool = True

    @property
    def limit(self) -> str:
        """The limits as text."""
        said = [
            f"{self.ge} to {self.le}" if self.le is not None else "",
            f"at most {self.count_max}" if self.count_max is not None else "",
            f"{f'{self.chars_min} to ' if self.chars_min else ''}{self.chars_max} characters, one line"
            if self.chars_max is not None
            else "",
            f"{self.bytes_max:,} bytes" if self.bytes_max is not None else "",
            self.more,
        ]
        return "; ".join(part for part in said if part)


EMAIL_FIELDS = (
    EmailField(
        name="to",
        type=ADDRESSES,
        count_max=RECIPIENTS_MAX,
        more="together with `cc` and `bcc`, at least 1",
        help="Recipients.",
    ),
    EmailField(name="cc", type=ADDRESSES, count_max=RECIPIENTS_MAX, help="Cc recipients."),
    EmailField(name="bcc", type=ADDRESSES, count_max=RECIPIENTS_MAX, help="Bcc recipients, hidden from the others."),
    EmailField(name="from", python="from_", type=ADDRESS, default="the account's address", help="Sender."),
    EmailField(name="reply_to", type=ADDRESS, help="Reply-To addresses."),
    EmailField(name="subject", default='required, may be `""`', chars_max=998, help="Subject."),
    EmailField(
        name="text",
        default='required unless `html` is given; may be `""`',
        bytes_max=BODY_BYTES_MAX,
        help="Plain text.",
    ),
    EmailField(name="html", bytes_max=BODY_BYTES_MAX, help="HTML."),
    EmailField(
        name="headers",
        type="object of strings",
        count_max=50,
        more=f"names: at most 100 ASCII characters; values: at most {HEADER_BYTES_MAX:,} bytes, one line",
        help="Additional headers.",
    ),
    EmailField(
        name="attachments",
        type="list of objects",
        python_type="list of `Attachment`",
        count_max=50,
        bytes_max=26_214_400,
        more="in total for all attachments",
        help="Attachments, including inline images in the HTML.",
    ),
    EmailField(
        name="content_id",
        type="integer",
        help="Previously stored content. Replaces `subject`, `text`, `html`, `headers`, `attachments` and `reply_to`.",
        is_over_http=False,
    ),
    EmailField(
        name="fields",
        type="object",
        python_type="`dict`",
        bytes_max=65_536,
        more="counted as `jsonb` text",
        help="Values for the fields in the content.",
    ),
    EmailField(
        name="workspace",
        default="`default`",
        chars_min=1,
        chars_max=200,
        help="Workspace that the e-mail belongs to.",
        is_over_http=False,
    ),
    EmailField(
        name="user",
        default='`""`',
        chars_max=200,
        help="User in the workspace on whose behalf the e-mail is sent. Case does not matter.",
    ),
    EmailField(
        name="stream",
        default='`""`',
        chars_max=200,
        help="The user's campaign or newsletter that the e-mail belongs to.",
    ),
    EmailField(
        name="class",
        python="email_class",
        type="`urgent` or `bulk`",
        default="`bulk` if there is a `stream`, else `urgent`",
        choices=("urgent", "bulk"),
        help="Urgent e-mails go first.",
    ),
    EmailField(
        name="pool",
        default="`default`",
        chars_min=1,
        chars_max=100,
        more="not starting with `@`",
        help="Pool whose accounts send the e-mail.",
    ),
    EmailField(
        name="account",
        chars_min=1,
        chars_max=100,
        more="cannot be combined with `pool`",
        help="The only account that may send the e-mail.",
    ),
    EmailField(
        name="due_at",
        type=MOMENT,
        python_type="`datetime`",
        default="now",
        more="between the years 1970 and 2200",
        help="Earliest time to send.",
    ),
    EmailField(
        name="expires_at",
        type=MOMENT,
        python_type="`datetime`",
        default="never",
        more="after `due_at` and in the future",
        help="Latest time to send.",
    ),
    EmailField(
        name="attempts_max",
        type="integer",
        default="5 if urgent, 4 if bulk",
        ge=1,
        le=50,
        help="Maximum number of attempts.",
    ),
    EmailField(
        name="on_doubt",
        type="`resend` or `hold`",
        default="`resend` if urgent, `hold` if bulk",
        choices=("resend", "hold"),
        help="What happens if it is unknown whether the e-mail was sent.",
    ),
    EmailField(
        name="idempotency_key",
        chars_min=1,
        chars_max=500,
        help="Idempotency key. E-mails with the same key are sent only once.",
    ),
    EmailField(
        name="follows",
        type="integer",
        more="an e-mail in the same workspace",
        help="ID of the e-mail that this one follows in its thread.",
    ),
    EmailField(
        name="type",
        chars_min=1,
        chars_max=150,
        more="letters, digits and `_.:-`, the first a letter or digit",
        help="E-mail type, for example `hub_forgot_password`. You can search for it.",
    ),
    EmailField(
        name="tags",
        type="object of strings",
        python_type="`dict`",
        count_max=20,
        more=f"names: at most 50 letters, digits and `_.-`; values: at most {TAG_CHARS_MAX} characters, one line",
        help="Your own names and values, such as an order number. You can search for them.",
    ),
    EmailField(
        name="metadata",
        type="object",
        python_type="`dict`",
        bytes_max=2_048,
        more="counted as `jsonb` text",
        help="Your own data about the e-mail. It is neither sent nor searchable.",
    ),
)

BY_NAME = {each.name: each for each in EMAIL_FIELDS}


def tags_of(written: Collection[str]) -> dict[str, str]:
    """Parse a list of `name=value` pairs. Raises ValueError."""
    tags: dict[str, str] = {}
    for each in written:
        name, sign, value = each.partition("=")
        if not sign or not re.fullmatch(TAG_NAME, name) or tags.get(name, value) != value:
            raise ValueError("must be name=value, with each name given only once")
        tags[name] = value
    return tags
