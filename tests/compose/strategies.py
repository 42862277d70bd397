"""E-mails as difficult as the database accepts them: every strategy draws only what `check_email.sql` would accept."""

from hypothesis import strategies as st

from fairpost.model.email import Attachment, Content, Mailbox, Outgoing, Recipient
from fairpost.model.ids import EmailId
from fairpost.model.states import DoubtPolicy, EmailClass

SPECIMENS = (
    "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "e\u0301\u0323\u0308", "שלום", "مرحبا بالعالم", "\u202eabc\u202c", "日本語テキスト", "Ωμέγα", "ÄÖÜßäöü", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "ท้องฟ้า", "\u00a0", "\u3000", "\ufeff", "ﷺ", "=?utf-8?q?x?=", "=?utf-8?b?eA==?=", "=?", "?=", "=", "_", "a,b", "a;b", "a:b",
    '"', "'", "\\", "(c)", "<x@y.example>", "@", "..", ".", "%41", "%", "100%", "&amp;", "From ", "a" * 77, "Re:", "-- ", "!", "{}",
)  # fmt: skip
GAPS = (" ", "  ", "   ", " " * 80)

printable = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029")
long_words = st.builds(
    lambda char, count: char * count,
    st.sampled_from(("x", "ü", "😀", "=", "_", "?")),
    st.sampled_from((76, 255, 997, 998, 2000)),
)
tokens = st.one_of(
    st.sampled_from(SPECIMENS),
    st.text("abcxyz019.-", min_size=1, max_size=12),
    st.text(printable, max_size=30),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    st.sampled_from(GAPS),
)


def lines_of(*, chars_max: int, extra: st.SearchStrategy[str] = long_words) -> st.SearchStrategy[str]:
    """One line without control characters, with up to `chars_max` characters."""
    pieces = st.lists(st.one_of(tokens, extra), max_size=40)
    return st.builds(lambda gap, words: gap.join(words)[:chars_max], st.sampled_from(("", " ")), pieces)


subjects = lines_of(chars_max=998)
names = st.one_of(
    st.none(),
    st.sampled_from(
        (
            "Ann Lee",
            "Lee, Ann",
            "Ann Q. Lee",
            'Ann "the" Lee',
            "Änn Lee",
            "O'Hara",
            "a\\b",
            " Ann ",
            "Ann  Lee",
            "ann@example.com",
            "=?utf-8?q?x?=",
            "Ann =?utf-8?b?eA==?=",
        )
    ),
    lines_of(chars_max=256).filter(bool),
)

body_pieces = st.one_of(
    tokens,
    long_words,
    st.sampled_from((
        "\r", "\n", "\r\n", "\n\n", "\n.\n", "\n..\n", ".", "\nFrom here\n", "From ", "\t", " \n", "\t\n", "\x01", "\x0b", "\x0c", "\x1b[0m",
        "\x7f", "\x85", "\u2028", "=\n", "=3D", "--=_a0\n", "\n--\n", "\n-- \n", "--=_m00000000000000000000000000000000--\n",
        "<p>hello</p>", '<a href="https://example.com/?a=b&amp;c=d">x</a>', "line of words " * 9, "\n" * 5,
    )),
)  # fmt: skip
bodies = st.one_of(
    st.just(""),
    st.lists(body_pieces, max_size=40).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=300),
    st.builds(
        lambda count, end: "ü" + "x" * count + end,
        st.integers(60, 80),
        st.sampled_from((" \n", "\t\n", "  \na", " ", "\t")),
    ),
    st.text("ab \t\r\n.=F", max_size=200),
)

ascii_locals = st.one_of(
    st.sampled_from(("ann", "ann.lee", "a+b", "o'hara", "x=y", "{a}", "#!$%&*/?^_`|~-", "a" * 64)),
    st.from_regex(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\.[a-z0-9_-]{1,10}){0,2}", fullmatch=True),
)
wide_locals = st.sampled_from(("müller", "用户", "почта.имя", "ann.é", "δοκιμή", "🙂", "e\u0301", "ü" * 32))
domains = st.one_of(
    st.sampled_from(
        (
            "example.com",
            "mail.example.org",
            "localhost",
            "a-b.example",
            "xn--bcher-kva.example",
            "a_b.example",
            "x" * 63 + ".example",
        )
    ),
    st.sampled_from(
        (
            "bücher.example",
            "faß.example",
            "日本語.jp",
            "пример.рф",
            "موقع.example",
            "ελλάδα.gr",
            "ñ.example",
            "a.ü.b.example",
        )
    ),
)


def addresses(*, wide: bool = True) -> st.SearchStrategy[str]:
    locals_ = st.one_of(ascii_locals, ascii_locals, wide_locals) if wide else ascii_locals
    return st.builds(lambda local, domain: f"{local}@{domain}", locals_, domains)


def mailboxes(*, wide: bool = True) -> st.SearchStrategy[Mailbox]:
    return st.builds(lambda address, name: Mailbox(address=address, name=name), addresses(wide=wide), names)


def recipients(*, count_max: int = 6, wide: bool = True) -> st.SearchStrategy[tuple[Recipient, ...]]:
    one = st.builds(
        lambda kind, box: Recipient(kind=kind, address=box.address, name=box.name),
        st.sampled_from(("to", "to", "cc", "bcc")),
        mailboxes(wide=wide),
    )
    return st.lists(one, min_size=1, max_size=count_max).map(tuple)


header_values = st.one_of(
    lines_of(chars_max=2000),
    st.lists(st.sampled_from(("a", "b\tc", "\t", "word", "zwei  drei", '{"json": 1}')), max_size=60).map(" ".join),
)
header_names = st.from_regex(r"X-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,60}", fullmatch=True)
text_headers = st.dictionaries(header_names, header_values, max_size=4).filter(
    lambda found: len({name.lower() for name in found}) == len(found)
)

structured_values = st.lists(
    st.sampled_from((
        "<a.b@example.com>", "<https://example.com/u?a=b&c=%20=?utf-8?q?x?=>", "<mailto:u@example.com?subject=x>,", "auto-replied", "(a comment)",
        "<" + "x" * 900 + "@example.com>", "<ü@example.com>", "=?utf-8?q?x?=", "<https://example.com/" + "y" * 300 + ">",
    )),
    max_size=30,
).map(" ".join)  # fmt: skip

filenames = st.one_of(
    st.sampled_from((
        "a.pdf", "my file.pdf", 'a"b.txt', "a;b.txt", "100%.txt", "%41.txt", "%41ü.txt", "100% März.pdf", "a'b''c.txt", "Rechnung März.pdf", "請求書.pdf", "счёт.pdf", "فاتورة.pdf",
        "👩‍👩‍👧‍👦.png", "=?utf-8?q?x?=.txt", " a.txt", "a.txt ", "a  b.txt", ".", "UTF-8''x", "a*b.txt", "a=b, c.txt", "é" * 255, "x" * 255, "<>.txt",
    )),
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029/\\"), min_size=1, max_size=255),
)  # fmt: skip
file_bytes = st.one_of(
    st.binary(max_size=400),
    st.builds(
        lambda piece, count: piece * count, st.binary(min_size=1, max_size=8), st.sampled_from((57, 58, 114, 5000))
    ),
)
media_types = st.sampled_from(
    (
        "application/pdf",
        "image/png",
        "text/csv",
        "text/plain",
        "application/octet-stream",
        "application/vnd.a+xml",
        "audio/x",
    )
)
inline_ids = st.one_of(st.none(), st.sampled_from(("logo", "a.b@example.com", "x" * 200, "a+b_c-d")))
attachments = st.lists(
    st.builds(
        lambda filename, content_type, inline_id, data: Attachment(
            filename=filename, content_type=content_type, inline_id=inline_id, data=data
        ),
        filenames,
        media_types,
        inline_ids,
        file_bytes,
    ),
    max_size=4,
).map(tuple)


def content_of(
    subject: str = "Hello",
    text: str | None = "Hello.",
    html: str | None = None,
    reply_to: Mailbox | None = None,
    headers: dict[str, str] | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> Content:
    return Content(
        id=1, subject=subject, text=text, html=html, reply_to=reply_to, headers=headers or {}, attachments=attachments
    )


def email_of(
    content: Content, people: tuple[Recipient, ...], *, number: int = 7, workspace: str = "default", attempts: int = 1
) -> Outgoing:
    return Outgoing(
        id=EmailId(number),
        workspace=workspace,
        email_class=EmailClass.URGENT,
        on_doubt=DoubtPolicy.RESEND,
        attempts=attempts,
        attempts_max=5,
        sender=None,
        recipients=people,
        envelope=tuple(person.address for person in people),
        fields={},
        content=content,
    )


def contents(*, wide: bool = True) -> st.SearchStrategy[Content]:
    return st.builds(
        content_of,
        subjects,
        st.one_of(st.none(), bodies),
        st.one_of(st.none(), bodies),
        st.one_of(st.none(), mailboxes(wide=wide)),
        text_headers,
        attachments,
    )
