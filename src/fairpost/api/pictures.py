"""Pictures that a mail brings with it, put into its html, so that a page can show it without asking for anything. Pure."""

import re
from base64 import b64encode
from collections.abc import Sequence
from urllib.parse import unquote

from fairpost.compose.entities import unescaped
from fairpost.model.email import Attachment

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # nothing in them runs
PICTURES_BYTES_MAX = 2 * 1_048_576  # of one mail, and the same picture counts each time
REFERENCES_MAX = 5_000

_REFERENCE = re.compile(r"""([=(]\s{0,20}(?:["']|&quot;|&\#39;)?)cid:([^\s"'<>()]+)""", re.IGNORECASE)
_QUOTE = re.compile("&quot;|&#39;", re.IGNORECASE)


def with_pictures(html: str, files: Sequence[Attachment]) -> str:
    """`cid:` becomes `data:` for pictures that are there, as long as there is room; the others are left as they are."""
    pictures = {file.inline_id: file for file in files if file.inline_id and file.content_type in PICTURE_TYPES}
    room = PICTURES_BYTES_MAX

    def shown(found: re.Match[str]) -> str:
        nonlocal room
        quote = _QUOTE.search(found[2])
        end = quote.start() if quote else len(found[2])
        picture = pictures.get(unquote(unescaped(found[2][:end])))
        if picture is None or len(picture.data) > room:
            return found[0]
        room -= len(picture.data)
        return f"{found[1]}data:{picture.content_type};base64,{b64encode(picture.data).decode()}{found[2][end:]}"

    return _REFERENCE.sub(shown, html, count=REFERENCES_MAX) if pictures else html
