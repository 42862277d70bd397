"""The options `--reply-to` and `--header`, which templates and campaigns share."""

from typing import Annotated, Any

import typer

ReplyTo = Annotated[
    str | None, typer.Option("--reply-to", metavar="ADDRESS", help="Reply-To address for the e-mails. Use '' for none.")
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME:VALUE", help="Additional header for the e-mails. Use '' for none. Repeatable."
    ),
]


def header_fields(reply_to: str | None, headers: list[str] | None) -> dict[str, Any]:
    """Return only the fields that were given."""
    given: dict[str, Any] = {} if reply_to is None else {"reply_to": reply_to}
    return given if headers is None else {**given, "headers": dict(_header(each) for each in headers if each)}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise typer.BadParameter(
            f"{text!r} is not a header. Use a format such as 'X-Team: sales'", param_hint="--header"
        )
    return name.strip(), value.strip()
