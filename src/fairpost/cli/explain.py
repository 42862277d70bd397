"""`fairpost explain`: what a server's reply means and what follows from it. Reads no database and sends nothing."""

import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpost.cli.output import AsJson, error_line, iso, print_json, print_pairs
from fairpost.model.report import Channel, Reply, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairpost.policy.replies import Meaning

CODE_MAX = 999

# What people and other programs call the steps.
ALIASES = {
    "banner": Step.GREETING,
    "connection": Step.CONNECT,
    "ehlo": Step.HELLO,
    "helo": Step.HELLO,
    "login": Step.AUTH,
    "rset": Step.RESET,
    "mail from": Step.MAIL,
    "mailfrom": Step.MAIL,
    "rcpt to": Step.RCPT,
    "rcptto": Step.RCPT,
    "end of data": Step.DOT,
    "eod": Step.DOT,
    ".": Step.DOT,
}


def _phase(text: str) -> Step:
    name = " ".join(text.lower().replace("_", " ").replace("-", " ").split())
    if name in ALIASES:
        return ALIASES[name]
    try:
        return Step(name)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no phase; there are {', '.join(Step)}") from None


def _channel(text: str) -> Channel:
    try:
        return Channel(text.strip().lower())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no channel; there are {', '.join(Channel)}") from None


def explain(
    context: typer.Context,
    reply: Annotated[str | None, typer.Argument(help='What the server said: "550 5.1.1 User unknown".')] = None,
    phase: Annotated[
        Step | None, typer.Option(parser=_phase, metavar="PHASE", help="When it was said: auth, mail, rcpt, data, dot…")
    ] = None,
    channel: Annotated[
        Channel | None, typer.Option(parser=_channel, metavar="CHANNEL", help="Whose codes: smtp (default) or gmail.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a server's reply means, and what follows from it.

    Without a reply, JSON lines are read from standard input (code, text, and if known enhanced, phase, channel), and
    a JSON line is printed for each. After a line that cannot be read it goes on, and ends with 1.

    \b
    Example: fairpost explain "550 5.1.1 User unknown" --phase rcpt
    """
    if reply is None and sys.stdin.isatty():
        typer.echo(context.get_help())
        raise typer.Exit(2)
    channel = channel or Channel.SMTP
    if reply is None:
        if not _explain_lines(typer.get_binary_stream("stdin"), phase=phase, channel=channel):
            raise typer.Exit(1)
        return
    from fairpost.policy.replies import meaning

    found = meaning(_reply(reply), phase=phase, channel=channel)
    if as_json:
        print_json(_jsonable(found))
    else:
        _print(found)


def _reply(text: str) -> Reply:
    """As it stands in a log: the code, which each line may repeat, and the text."""
    code = text.strip()[:3]
    if not (code.isascii() and code.isdigit() and len(code) == 3):
        raise typer.BadParameter(f"{text!r} does not begin with a code; write it like '550 5.1.1 User unknown'")
    lines = [line.strip().removeprefix(code).removeprefix("-").strip() for line in text.strip().splitlines()]
    return Reply(int(code), "\n".join(lines))


def _explain_lines(lines: "Iterable[bytes]", *, phase: Step | None, channel: Channel) -> bool:
    """A line out for each line in, so that both stay side by side. False: at least one could not be read."""
    is_well = True
    for number, line in enumerate(lines, 1):
        try:
            told = _jsonable(_read_line(line, phase=phase, channel=channel))
        except (typer.BadParameter, ValueError, RecursionError) as error:
            is_well = False
            told = {"error": _complaint(error)}
            error_line(f"line {number}: {told['error']}")
        typer.echo(json.dumps(told, ensure_ascii=False))
    return is_well


def _complaint(error: Exception) -> str:
    if isinstance(error, typer.BadParameter):
        return error.message
    where = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
    return f"this is no JSON: {where}"


def _read_line(line: bytes, *, phase: Step | None, channel: Channel) -> "Meaning":
    from fairpost.policy.replies import meaning

    given = json.loads(line.strip())
    if not isinstance(given, dict):
        raise typer.BadParameter('write an object, like {"code": 550, "text": "5.1.1 User unknown"}')
    return meaning(
        Reply(_code(given.get("code")), _text(given, "text") or ""),
        phase=_phase(said) if (said := _text(given, "phase")) else phase,
        channel=_channel(said) if (said := _text(given, "channel")) else channel,
        enhanced=_text(given, "enhanced"),
    )


def _code(code: Any) -> int:
    if isinstance(code, str) and code.strip().isascii() and code.strip().isdigit():
        code = int(code.strip()[:4])
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= CODE_MAX:
        raise typer.BadParameter(f"code must be a number like 550, got {json.dumps(code)[:40]}")
    return code


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise typer.BadParameter(f"{key} must be a string, got {json.dumps(value)[:40]}")
    return value


def _jsonable(found: "Meaning") -> dict[str, Any]:
    told: dict[str, Any] = {
        "class": found.class_,
        "scope": found.scope,
        "retry": found.retry,
        "suppress_recipient": found.suppress_recipient,
        "why": found.why,
    }
    if isinstance(found.wait, timedelta):
        told["wait_s"] = int(found.wait.total_seconds())
    elif found.wait is not None:
        told["wait_until"] = iso(found.wait)
    return told


def _print(found: "Meaning") -> None:
    typer.echo(found.why)
    typer.echo()
    wait = _jsonable(found)
    print_pairs(
        (
            ("class", found.class_),
            ("about", f"the {found.scope}"),
            ("tried again", "yes" if found.retry else "no"),
            ("not before", f"in {wait['wait_s']} s" if "wait_s" in wait else wait.get("wait_until")),
            ("address suppressed", "yes" if found.suppress_recipient else "no"),
            *zip(("the e-mail", "the recipient", "the account"), _consequences(found), strict=True),
        )
    )


def _consequences(found: "Meaning") -> tuple[str, str, str]:
    """For the e-mail, the recipient and the account."""
    from fairpost.policy.replies import ReplyClass, Scope

    later = "waits, and is tried again until its attempts are used up"
    stays = "stays on the list"
    match found.class_:
        case ReplyClass.ACCEPTED:
            return "is sent", "gets it", "goes on"
        case ReplyClass.HARD_BOUNCE:
            return "has bounced, and is not tried again", "gets no more mail from this workspace", "goes on"
        case ReplyClass.AUTH if not found.retry:
            return "goes back to the queue for another account", stays, "is suspended until its login is put right"
        case ReplyClass.RATE_LIMIT | ReplyClass.AUTH:
            return "waits, and is tried again", stays, "rests for a while"
        case ReplyClass.POLICY_SENDER:
            return "has failed", stays, "goes on; look at its address, its DNS records and its reputation"
        case _ if found.retry:
            goes_on = "goes on; look at its address, its DNS records and its reputation"
            return later, stays, goes_on if found.scope is Scope.ACCOUNT else "goes on"
        case _:
            return "has failed", stays, "goes on"
