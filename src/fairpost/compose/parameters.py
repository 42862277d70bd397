"""Parameters of MIME headers. A value is written as a quoted string if it is ASCII and fits on one line; otherwise, it
is encoded as defined in RFC 2231.
"""

import re
from urllib.parse import quote

from fairpost.compose.headers import LINE_BYTES_GOOD

SIMPLE = r"[!#-:<-\[\]-~]"  # no quotes, backslashes or semicolons: some parsers mishandle them inside quotes
QUOTABLE = re.compile(rf"{SIMPLE}+(?: {SIMPLE}+)*")
ATTRIBUTE_CHARS = "!#$&+-.^_`{|}~"  # characters that are allowed in addition to letters and digits


def parameter(name: str, value: str) -> list[bytes]:
    """Returns one word for `fold`, or several words that use RFC 2231 continuations. All words except the last end with
    a semicolon.
    """
    if QUOTABLE.fullmatch(value) and "=?" not in value:
        plain = f'{name}="{value}"'
        if len(plain) < LINE_BYTES_GOOD:
            return [plain.encode("ascii")]
    # The value is split between characters, because some parsers decode each piece separately.
    characters = [quote(char, safe=ATTRIBUTE_CHARS, errors="replace") for char in value]
    whole = f"{name}*=UTF-8''{''.join(characters)}"
    if len(whole) < LINE_BYTES_GOOD:
        return [whole.encode("ascii")]
    return [piece.encode("ascii") for piece in _continued(name, characters)]


def _continued(name: str, characters: list[str]) -> list[str]:
    pieces, piece = [], f"{name}*0*=UTF-8''"
    for char in characters:
        if len(piece) + len(char) + len(" ;") > LINE_BYTES_GOOD:
            pieces.append(piece + ";")
            piece = f"{name}*{len(pieces)}*="
        piece += char
    return [*pieces, piece]
