"""Embeds inline images into the HTML of an e-mail, so that a page can show it without further requests."""

import re
from base64 import b64encode
from collections.abc import Sequence
from urllib.parse import unquote

from fairpost.compose.entities import unescaped
from fairpost.model.email import Attachment

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # formats that cannot contain scripts
PICTURES_BYTES_MAX = 2 * 1_048_576  # per e-mail; an image used twice counts twice
REFERENCES_MAX = 5_000

_REFERENCE = re.compile(r"""([=(]\s{0,20}(?:["']|&quot;|&\#39;)?)cid:([^\s"'<>()]+)""", re.IGNORECASE)
_QUOTE = re.compile("&quot;|&#39;", re.IGNORECASE)


def with_pictures(html: str, files: Sequence[Attachment]) -> str:
    """Replaces `cid:` with `data:` for existing images, up to a total size. All other links stay the same."""
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
