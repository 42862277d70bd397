"""`fairpost explain`: what a server's reply means and how the engine handles it. Uses no database and sends nothing.

`explain_message` handles complete returned messages.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fairpost.cli.output import AsJson, error_line, iso, print_json, print_pairs
from fairpost.model.durations import say_duration
from fairpost.model.report import Channel, Reached, Reply, Report, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairpost.model.email import Outgoing
    from fairpost.policy.replies import Meaning

CODE_MAX = 999

# Other names for the steps.
ALIASES = {
    "tcp": Step.CONNECT,
    "dns": Step.CONNECT,
    "network": Step.CONNECT,
    "connection": Step.CONNECT,
    "banner": Step.GREETING,
    "welcome": Step.GREETING,
    "ehlo": Step.HELLO,
    "helo": Step.HELLO,
    "ssl": Step.TLS,
    "handshake": Step.TLS,
    "login": Step.AUTH,
    "sasl": Step.AUTH,
    "authentication": Step.AUTH,
    "rset": Step.RESET,
    "mail from": Step.MAIL,
    "mailfrom": Step.MAIL,
    "from": Step.MAIL,
    "sender": Step.MAIL,
    "envelope": Step.MAIL,
    "rcpt to": Step.RCPT,
    "rcptto": Step.RCPT,
    "to": Step.RCPT,
    "recipient": Step.RCPT,
    "content": Step.BODY,
    "final": Step.DOT,
    "final dot": Step.DOT,
    "end": Step.DOT,
    "end of data": Step.DOT,
    "end of message": Step.DOT,
    "data end": Step.DOT,
    "eod": Step.DOT,
    "eom": Step.DOT,
    ".": Step.DOT,
}
API_NAMES = frozenset({"api", "http", "https", "rest"})


class Phase(NamedTuple):
    step: Step | None
    is_api: bool = False


class Explained(NamedTuple):
    reply: Reply
    phase: Phase
    channel: Channel
    found: "Meaning"


def _phase(text: str) -> Phase:
    name = " ".join(text.lower().replace("_", " ").replace("-", " ").split())
    if name in API_NAMES:
        return Phase(None, is_api=True)
    if name in ALIASES:
        return Phase(ALIASES[name])
    try:
        return Phase(Step(name))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a phase. Use one of: {', '.join(Step)}, api") from None


def _channel(text: str) -> Channel:
    try:
        return Channel(text.strip().lower())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a channel. Use one of: {', '.join(Channel)}") from None


def explain(
    context: typer.Context,
    reply: Annotated[
        str | None,
        typer.Argument(help='A server reply, for example "550 5.1.1 User unknown", or an API error body.'),
    ] = None,
    phase: Annotated[
        Phase | None,
        typer.Option(
            parser=_phase,
            metavar="PHASE",
            help="Phase in which the server replied: ehlo, auth, mail, rcpt, data, final, api…",
        ),
    ] = None,
    channel: Annotated[
        Channel | None,
        typer.Option(parser=_channel, metavar="CHANNEL", help="The server's protocol: smtp (default), gmail or graph."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Explain a returned message instead of a reply: a file, a folder of messages, or `-` for standard input.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain how Fairpost handles a server's reply.

    If no reply is given, reads JSON lines from standard input and prints a JSON line for each. An input line is either
    an object with `code` and `text`, and optionally `enhanced`, `phase` and `channel`, or an API error body. If a line
    cannot be read, its output line contains an error, and the exit code is 1.

    \b
    Example: fairpost explain "550 5.1.1 User unknown" --phase rcpt
             fairpost explain --message bounce.eml
    """
    if message is not None:
        from fairpost.cli.explain_message import explain_messages
        from fairpost.system import clock

        if reply is not None:
            raise typer.BadParameter("specify either a reply or --message")
        if not explain_messages(message, as_json=as_json, now=clock.now()):
            raise typer.Exit(1)
        return
    if reply is None and sys.stdin.isatty():
        typer.echo(context.get_help())
        raise typer.Exit(2)
    phase = phase or Phase(None)
    if reply is None:
        if not _explain_lines(typer.get_binary_stream("stdin"), phase=phase, channel=channel):
            raise typer.Exit(1)
        return
    explained = _explained(_reply(reply), phase=phase, channel=channel)
    if as_json:
        print_json(_jsonable(explained))
    else:
        _print(explained)


def _reply(text: str) -> Reply:
    """Parse a reply as it appears in a log.

    A reply is the text, with or without the code. Each line may repeat the code.
    """
    text = text.strip()
    code = text[:3]
    if not (code.isascii() and code.isdigit() and len(code) == 3 and not text[3:4].isalnum()):
        return Reply(0, text)
    lines = [line.strip().removeprefix(code).removeprefix("-").strip() for line in text.splitlines()]
    return Reply(int(code), "\n".join(lines))


def _explained(reply: Reply, *, phase: Phase, channel: Channel | None, enhanced: str | None = None) -> Explained:
    from fairpost.policy.api_errors import read_error
    from fairpost.policy.replies import meaning
    from fairpost.policy.reply_codes import BY_GRAPH_CODE

    if error := read_error(reply.text, status=reply.code):
        reply, channel = error.reply, channel or error.channel
    if channel is None and phase.is_api:
        is_graphs = reply.text.partition(":")[0].strip().lower() in BY_GRAPH_CODE
        channel = Channel.GRAPH if is_graphs else Channel.GOOGLE
    channel = channel or Channel.SMTP
    return Explained(reply, phase, channel, meaning(reply, phase=phase.step, channel=channel, enhanced=enhanced))


def _explain_lines(lines: "Iterable[bytes]", *, phase: Phase, channel: Channel | None) -> bool:
    """Print one output line per input line, in the same order. Return False if a line could not be read."""
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
    return f"not valid JSON: {where}"


def _read_line(line: bytes, *, phase: Phase, channel: Channel | None) -> Explained:
    given = json.loads(line.strip())
    if not isinstance(given, dict):
        raise typer.BadParameter('use an object, for example {"code": 550, "text": "5.1.1 User unknown"}')
    if "error" in given:
        return _explained(Reply(0, line.decode()), phase=phase, channel=channel)
    return _explained(
        Reply(_code(given.get("code", 0)), _text(given, "text") or ""),
        phase=_phase(said) if (said := _text(given, "phase")) else phase,
        channel=_channel(said) if (said := _text(given, "channel")) else channel,
        enhanced=_text(given, "enhanced"),
    )


def _code(code: Any) -> int:
    if isinstance(code, str) and code.strip().isascii() and code.strip().isdigit():
        code = int(code.strip()[:4])
    if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code <= CODE_MAX:
        raise typer.BadParameter(f"code must be a number such as 550, got {json.dumps(code)[:40]}")
    return code


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise typer.BadParameter(f"{key} must be a string, got {json.dumps(value)[:40]}")
    return value


def _jsonable(explained: Explained) -> dict[str, Any]:
    found = explained.found
    then = _follows(explained)
    told: dict[str, Any] = {
        "class": found.class_,
        "scope": found.scope,
        "retry": found.retry,
        "suppress_recipient": found.suppress_recipient,
        "why": found.why,
        "email": then.email,
        "uses_try": then.uses_try,
        "account": then.account,
    }
    if isinstance(found.wait, timedelta):
        told["wait_s"] = int(found.wait.total_seconds())
    elif found.wait is not None:
        told["wait_until"] = iso(found.wait)
    return told


def _print(explained: Explained) -> None:
    found, told = explained.found, _jsonable(explained)
    typer.echo(found.why)
    typer.echo()
    print_pairs(
        (
            ("class", found.class_),
            ("about", f"the {found.scope}"),
            ("retried", "yes" if found.retry else "no"),
            ("not before", f"in {told['wait_s']} s" if "wait_s" in told else told.get("wait_until")),
            ("address suppressed", "yes" if found.suppress_recipient else "no"),
            ("the e-mail", _of_the_email(told["email"])),
            (
                "the recipient",
                "receives no more mail from this workspace" if found.suppress_recipient else "remains on the list",
            ),
            ("the account", _of_the_account(told["account"], explained)),
        )
    )


class Follows(NamedTuple):
    email: str  # sent, bounced, failed, retried (on its own schedule) or deferred (with the account)
    uses_try: bool
    account: str  # goes_on, rests_seconds, rests_minutes, suspended


def _follows(explained: Explained) -> Follows:
    """Judge the reply as the engine would for an e-mail that has one recipient and has attempts left."""
    from fairpost.model.verdict import Bounced, Deferred, Failed, Retry, Sent, Untouched
    from fairpost.policy.verdicts import is_about_our_pace, judge, suspend_reason

    report = _report(explained)
    verdict = judge(_an_email(), report, attempts=1, now=datetime(2030, 1, 1, tzinfo=UTC), roll=0)
    match verdict:
        case Sent():
            return Follows("sent", True, "goes_on")
        case Bounced():
            return Follows("bounced", True, "goes_on")
        case Failed():
            return Follows("failed", True, "goes_on")
        case Retry():
            return Follows("retried", True, "goes_on")
        case Deferred() | Untouched() if suspend_reason(report):
            return Follows("deferred", False, "suspended")
        case Untouched() if not is_about_our_pace(report):
            return Follows("deferred", False, "rests_seconds")
        case Deferred() | Untouched():
            return Follows("deferred", False, "rests_minutes")
        case _:
            raise AssertionError(f"unexpected verdict on a reply: {verdict}")


RECIPIENT = "ann@example.com"
BEFORE_THE_EMAIL = frozenset({Step.CONNECT, Step.GREETING, Step.HELLO, Step.STARTTLS, Step.TLS, Step.AUTH})


def _report(explained: Explained) -> Report:
    """Return the report that a transport would make."""
    from fairpost.policy.replies import NO_CODE, Scope

    reply, step = explained.reply, explained.phase.step
    if reply.code == NO_CODE and explained.found.scope is Scope.NETWORK:  # the transport's own text, not a server's
        return Report(reached=Reached.UNTOUCHED, channel=explained.channel, step=step, error=reply.text)
    return Report(
        reached=Reached.UNTOUCHED if step in BEFORE_THE_EMAIL else Reached.REPLIED,
        channel=explained.channel,
        step=step,
        reply=reply,
        recipients={RECIPIENT: reply} if step is Step.RCPT else {},
    )


def _an_email() -> "Outgoing":
    from fairpost.model.email import Content, Outgoing, Recipient
    from fairpost.model.ids import EmailId
    from fairpost.model.states import DoubtPolicy, EmailClass

    return Outgoing(
        id=EmailId(1),
        workspace="",
        email_class=EmailClass.URGENT,
        on_doubt=DoubtPolicy.HOLD,
        attempts=0,
        attempts_max=2,
        sender=None,
        recipients=(Recipient(kind="to", address=RECIPIENT),),
        envelope=(RECIPIENT,),
        fields={},
        content=Content(id=1, subject="", text="", html=None, reply_to=None, headers={}),
    )


def _of_the_email(email: str) -> str:
    from fairpost.policy.retries import DELAYS

    match email:
        case "sent":
            return "is sent"
        case "bounced":
            return "has bounced and is not retried"
        case "failed":
            return "has failed and is not retried"
        case "deferred":
            return (
                "returns to the queue without using up an attempt; another account in the pool can send it immediately"
            )
        case _:
            plans = (
                f"{email_class}: {', '.join(say_duration(delay.total_seconds()) for delay in delays)}"
                for email_class, delays in DELAYS.items()
            )
            return f"uses up an attempt and is retried as planned ({'; '.join(plans)})"


def _of_the_account(account: str, explained: Explained) -> str:
    from fairpost.policy.replies import ReplyClass

    found = explained.found
    match account:
        case "suspended":
            return "is suspended until its login is corrected"
        case "rests_seconds":
            return "pauses for 1, 2, 4, … seconds, up to a minute"
        case "rests_minutes":
            return (
                "pauses until the time given by the server or, if there is none, for 1, 2, 4, … minutes, up to an hour"
            )
        case _ if found.class_ is ReplyClass.POLICY_SENDER:
            return "continues; after several such replies in a row, it is suspended. Check the account's address, DNS records and reputation"
        case _ if found.retry:
            return "continues; after three such replies in a row, it pauses"
        case _:
            return "continues"
