"""The fields of an e-mail that is handed in: each once, with its type, its default and its bounds.

The HTTP model, the names and conversions in Python and the table of the docs follow from it. Whether an e-mail is good is judged by
`fairpost.check_email` alone (sql/accept/check_email.sql); a test compares the bounds here with its judgement.
"""

from dataclasses import dataclass

ADDRESS, ADDRESSES, MOMENT = "an address", "an address or a list of them", "time with its zone"
BODY_BYTES_MAX = 10_485_760
RECIPIENTS_MAX = 50
# of the parts of a field
ADDRESS_BYTES_MAX = 254
DISPLAY_NAME_CHARS_MAX = 256
MAILBOX_CHARS_MAX = 1_000  # of an address with its display name in one text over HTTP: quotes and escapes take room
HEADER_NAME = "[!-9;-~]{1,100}"
HEADER_BYTES_MAX = 8_192
FILENAME_CHARS_MAX = 255
MEDIA_TYPE = "[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}"
INLINE_ID = "[A-Za-z0-9._@+-]{1,200}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailField:
    """`name`: in SQL and over HTTP. Characters count on one line, without control characters."""

    name: str
    type: str = "string"
    python: str = ""  # where it has another name there
    python_type: str = ""  # where it has another type there
    default: str = ""
    chars_min: int = 0
    chars_max: int | None = None
    bytes_max: int | None = None
    ge: int | None = None
    le: int | None = None
    count_max: int | None = None
    choices: tuple[str, ...] = ()
    more: str = ""  # what else must hold
    help: str
    is_over_http: bool = True

    @property
    def limit(self) -> str:
        """In words."""
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
        more="with `cc` and `bcc`, and 1 at least",
        help="Who gets it.",
    ),
    EmailField(name="cc", type=ADDRESSES, count_max=RECIPIENTS_MAX, help="Who gets a copy, for all to see."),
    EmailField(
        name="bcc", type=ADDRESSES, count_max=RECIPIENTS_MAX, help="Who gets a copy that the others do not see."
    ),
    EmailField(name="from", python="from_", type=ADDRESS, default="the account's own", help="Whom it is from."),
    EmailField(name="reply_to", type=ADDRESS, help="Where answers go."),
    EmailField(name="subject", default='needed, may be `""`', chars_max=998, help="The subject."),
    EmailField(
        name="text", default='this or `html` is needed, may be `""`', bytes_max=BODY_BYTES_MAX, help="The plain text."
    ),
    EmailField(name="html", bytes_max=BODY_BYTES_MAX, help="The same as HTML."),
    EmailField(
        name="headers",
        type="object of strings",
        count_max=50,
        more=f"names 100 ASCII characters; values {HEADER_BYTES_MAX:,} bytes, one line",
        help="Headers of your own.",
    ),
    EmailField(
        name="attachments",
        type="list of objects",
        python_type="list of `Attachment`",
        count_max=50,
        bytes_max=26_214_400,
        more="counted together",
        help="Files, also images of the html.",
    ),
    EmailField(
        name="content_id",
        type="integer",
        help="Content that was stored before. Replaces `subject`, `text`, `html`, `headers`, `attachments` and `reply_to`.",
        is_over_http=False,
    ),
    EmailField(
        name="fields",
        type="object",
        python_type="`dict`",
        bytes_max=65_536,
        more="counted as `jsonb` text",
        help="Values for the places in its content.",
    ),
    EmailField(
        name="workspace",
        default="`default`",
        chars_min=1,
        chars_max=200,
        help="Whose e-mail it is.",
        is_over_http=False,
    ),
    EmailField(
        name="user",
        default='`""`',
        chars_max=200,
        help="Which user of the workspace sends it. Case does not matter.",
    ),
    EmailField(name="stream", default='`""`', chars_max=200, help="Which of the user's mailings it belongs to."),
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
        more="no `@` at the beginning",
        help="Any account of this pool sends it.",
    ),
    EmailField(
        name="account", chars_min=1, chars_max=100, more="not together with `pool`", help="This account alone sends it."
    ),
    EmailField(
        name="due_at",
        type=MOMENT,
        python_type="`datetime`",
        default="now",
        more="between the years 1970 and 2200",
        help="Not sent before.",
    ),
    EmailField(
        name="expires_at",
        type=MOMENT,
        python_type="`datetime`",
        default="never",
        more="after `due_at` and after now",
        help="Not sent after.",
    ),
    EmailField(
        name="attempts_max",
        type="integer",
        default="5 if urgent, 4 if bulk",
        ge=1,
        le=50,
        help="How often it is tried before it fails.",
    ),
    EmailField(
        name="on_doubt",
        type="`resend` or `hold`",
        default="`resend` if urgent, `hold` if bulk",
        choices=("resend", "hold"),
        help="What happens when it is unknown whether it was sent.",
    ),
    EmailField(
        name="idempotency_key",
        chars_min=1,
        chars_max=500,
        help="However often it is handed in with this key: it is sent once.",
    ),
    EmailField(
        name="follows",
        type="integer",
        more="an e-mail of the same workspace",
        help="The id of the e-mail that this one answers to.",
    ),
)

BY_NAME = {each.name: each for each in EMAIL_FIELDS}
