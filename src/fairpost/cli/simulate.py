"""`fairpost simulate`: days in minutes, with the real database and the real workers on a clock moved by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.output import AsJson, note, print_json, print_pairs
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.simulate.accounts import Outcome

app = typer.Typer(no_args_is_help=True, help="Let days pass in minutes, on a database of its own. No mail leaves.")


@app.command()
def accounts(
    accounts: Annotated[int, typer.Option(min=1, max=10_000, help="How many, of all providers in turn.")] = 200,
    days: Annotated[float, typer.Option(min=0.01, max=365, help="How long.")] = 7,
    emails: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many there are to send.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed, the same troubles.")] = 1,
    as_json: AsJson = False,
) -> None:
    """See accounts of many providers keep their limits, come what may.

    Through bounces, requests to slow down, and outages. Ends with 1 if a limit was exceeded, or an e-mail was sent twice.

    \b
    Example: fairpost simulate accounts --accounts 20 --days 2 --emails 1000
    """
    import asyncio

    from fairpost.app import prepare_database
    from fairpost.bench.workload import bench_database
    from fairpost.postgres.store import Store
    from fairpost.simulate.accounts import simulate_accounts
    from fairpost.system import clock

    async def run() -> "tuple[Outcome, float]":
        async with bench_database(await prepare_database(read_settings())) as own, Store.open(own) as store:
            before_s = clock.monotonic()
            outcome = await simulate_accounts(
                store, accounts=accounts, days=days, emails=emails, seed=seed, progress=note
            )
            return outcome, clock.monotonic() - before_s

    outcome, took_s = asyncio.run(run())
    facts = {
        "accounts": accounts,
        "emails": emails,
        "simulated_days": outcome.simulated.total_seconds() / 86_400,
        "states": dict(outcome.states),
        "sent_by_provider": dict(outcome.sent_by),
        "duplicates": outcome.duplicates,
        "broken_limits": len(outcome.broken_limits),
        "took_s": took_s,
    }
    if as_json:
        print_json(facts)
    else:
        for words in outcome.broken_limits[:20]:
            note(words)
        print_pairs((name.replace("_", " "), _in_words(value)) for name, value in facts.items())
    if outcome.broken_limits or outcome.duplicates:
        raise typer.Exit(1)


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number:,}" for name, number in sorted(value.items()))
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
