"""`fairpost status`: the queue, the accounts, and why mail is not being sent."""

from typing import TYPE_CHECKING, Any

import typer

from fairpost.cli.account_view import account_facts, print_accounts
from fairpost.cli.output import AsJson, jsonable, plain, print_json, print_table, when
from fairpost.cli.session import with_store
from fairpost.model.states import FINAL, State
from fairpost.reasons.rendering import brief_or_none
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.policy.conditions import Condition
    from fairpost.policy.facts import Facts
    from fairpost.reasons.rendering import Shown
    from fairpost.store.store import Store


def status(as_json: AsJson = False) -> None:
    """Show the state, and why mail is not being sent.

    The command takes the same amount of time regardless of the number of e-mails. Scheduled and ready e-mails are counted
    together as waiting.

    \b
    Example: fairpost status
    """
    from fairpost.policy.conditions import diagnose
    from fairpost.reasons.rendering import shown

    settings = read_settings()
    facts, of_webhooks = with_store(_read, settings=settings)
    reasons = [shown(each) for each in diagnose(facts)]
    webhooks = [shown(each) for each in of_webhooks]
    if as_json:
        print_json({**_as_json(facts, reasons), "webhooks": webhooks, "redirect_all": settings.redirect_all})
        return
    _shout(facts, redirect_all=settings.redirect_all)
    _print(facts, reasons)
    mailboxes = [shown(each) for each in _mailboxes(facts)]
    if mailboxes:
        typer.echo()
        _print_shown("Mailboxes that cannot be read", mailboxes)
    if webhooks:
        typer.echo()
        _print_shown("Webhooks", webhooks)


async def _read(store: "Store") -> "tuple[Facts, list[Condition]]":
    from fairpost.observe.status import read_facts
    from fairpost.observe.webhooks import troubled

    return await read_facts(store), await troubled(store)


def _mailboxes(facts: "Facts") -> "list[Condition]":
    from fairpost.observe.reading import reading_of

    found = (reading_of(each, facts.now) for each in facts.accounts)
    return [each.condition for each in found if each and each.is_troubled]


def _shout(facts: "Facts", *, redirect_all: str | None) -> None:
    """Print any pause and any redirection of mail at the top."""
    from fairpost.policy.conditions import of_pause
    from fairpost.reasons.rendering import shown

    if facts.pause:
        reason = shown(of_pause(facts.pause))
        typer.secho(f"PAUSED. {plain(reason.text)}", fg=typer.colors.RED, bold=True)
        typer.echo(f"next: {reason.then}\n")
    if redirect_all:
        typer.secho(f"REDIRECTED. {redirection(redirect_all)}", fg=typer.colors.RED, bold=True)
        typer.echo("next: unset FAIRPOST_REDIRECT_ALL, unless this is a staging system\n")


def redirection(address: str) -> str:
    return f"Every e-mail is sent to {address} instead of its recipients (FAIRPOST_REDIRECT_ALL)."


def _as_json(facts: "Facts", reasons: "list[Shown]") -> dict[str, Any]:
    total = facts.total()
    next_at = _next_at(facts)
    return {
        "now": facts.now,
        "pause": facts.pause,
        "queue": {
            "waiting": sum(route.waiting for route in facts.routes),  # scheduled and ready together
            "claimed": total.claimed,
            "sending": total.sending,
            "in_doubt": total.in_doubt,
            "next_due_at": next_at,
        },
        "finished_24h": {state: facts.finished.get(state, 0) for state in State if state in FINAL},
        "routes": facts.routes,
        "accounts": [account_facts(post, facts) for post in facts.accounts],
        "holds": [{**jsonable(hold), "is_throttle": hold.is_throttle} for hold in facts.holds],
        "reasons": reasons,
    }


def _next_at(facts: "Facts") -> Any:
    return min((route.next_at for route in facts.routes if route.next_at), default=None)


def _print(facts: "Facts", reasons: "list[Shown]") -> None:
    total = facts.total()
    waiting = sum(route.waiting for route in facts.routes)
    print_table(
        (">waiting", ">claimed", ">sending", ">in doubt", "next due"),
        [(f"{waiting:,}", total.claimed, total.sending, total.in_doubt, when(_next_at(facts), facts.now))],
        title="Queue (waiting: scheduled and ready together)",
    )
    typer.echo()
    finals = [state for state in State if state in FINAL]
    columns = [f">{state}" for state in finals]
    print_table(columns, [[f"{facts.finished.get(s, 0):,}" for s in finals]], title="Finished in the last 24 h")
    _print_routes(facts)
    if facts.accounts:
        typer.echo()
        print_accounts(facts)
    _print_holds(facts)
    typer.echo()
    _print_reasons(facts, reasons)


def _print_routes(facts: "Facts") -> None:
    if facts.routes:
        typer.echo()
        rows = [(r.route, f"{r.waiting:,}", "now" if r.due else when(r.next_at, facts.now)) for r in facts.routes]
        print_table(("pool or @account", ">waiting", "due"), rows, title="Waiting for")


def _print_holds(facts: "Facts") -> None:
    if facts.holds:
        typer.echo()
        rows = [
            (
                h.workspace,
                f"{h.level} {h.key}".strip() + ("" if h.kind == "held" else f" ({h.kind})"),
                when(h.until, facts.now) or "released",
                f"{h.waiting:,}",
                brief_or_none(h.reason),
            )
            for h in facts.holds
        ]
        print_table(("workspace", "held", "until", ">waiting", "reason"), rows, title="Holds")


def _print_reasons(facts: "Facts", reasons: "list[Shown]") -> None:
    from fairpost.policy.conditions import headline
    from fairpost.reasons.rendering import told

    if not reasons:
        typer.echo(plain(told(headline(facts, [], per_s=0))))
        return
    _print_shown("Why mail is not being sent", reasons)


def _print_shown(title: str, reasons: "list[Shown]") -> None:
    typer.secho(title, bold=True)
    for reason in reasons:
        typer.secho(f"- {plain(reason.text)}", fg=typer.colors.YELLOW)
        if reason.then:
            typer.echo(f"  next: {plain(reason.then)}")
