"""Output of a server test: each step, the server's reply, and the next step."""

from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.output import plain
from fairpost.model.report import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.transports.port import Tried


NAMES = {Step.TLS: "TLS", Step.STARTTLS: "STARTTLS", Step.AUTH: "login"}


def print_verification(tried: "Sequence[Tried]") -> None:
    for each in tried:
        mark, colour = ("✓", typer.colors.GREEN) if each.ok else ("✗", typer.colors.RED)
        typer.secho(
            plain(f"{mark} {each.name or NAMES.get(each.step, each.step):<8}  {_words(each)}").rstrip(), fg=colour
        )


def verification_facts(tried: "Sequence[Tried]") -> list[dict[str, Any]]:
    return [
        {
            "step": each.name or each.step,
            "ok": each.ok,
            "text": each.text or None,
            "reply": {"code": each.reply.code, "text": each.reply.text} if each.reply else None,
        }
        for each in tried
    ]


def _words(each: "Tried") -> str:
    if each.reply is None:
        return each.text
    return f"{each.text}. Reply: {each.reply.code} {each.reply.text}"
