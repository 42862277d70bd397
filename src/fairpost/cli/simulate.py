"""`fairpost simulate`: simulate days of sending in minutes, using the engine's own code on a virtual clock."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.output import AsJson, note, print_json, print_pairs
from fairpost.cli.plots import Plot, require_plottable, save
from fairpost.settings import read_settings

if TYPE_CHECKING:
    from fairpost.dev.simulate.accounts import Outcome
    from fairpost.dev.simulate.fairness import Record
    from fairpost.dev.simulate.providers import Result

app = typer.Typer(no_args_is_help=True, help="Simulate days of sending in minutes.")


class ScenarioName(StrEnum):
    WHALE = "whale"
    THOUSAND_SMALL = "thousand-small"
    ABUSER = "abuser"
    TIERS = "tiers"
    CHURN = "churn"


@app.command()
def accounts(
    accounts: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of accounts, spread across all providers.")
    ] = 200,
    days: Annotated[float, typer.Option(min=0.01, max=365, help="Duration in days.")] = 7,
    emails: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of e-mails to send.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Random seed. A given seed always produces the same run.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Check that accounts at many providers stay within their limits.

    Simulates bounces, throttling and outages. Exits with code 1 if a limit was exceeded or an e-mail was sent twice.

    \b
    Example: fairpost simulate accounts --accounts 20 --days 2 --emails 1000
    """
    import asyncio

    from fairpost.dev.bench.workload import bench_database
    from fairpost.dev.simulate.accounts import simulate_accounts
    from fairpost.startup.parts import prepare_database
    from fairpost.store.store import Store
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


@app.command()
def fairness(
    scenario: Annotated[ScenarioName, typer.Option(help="Scenario to simulate.")] = ScenarioName.WHALE,
    seed: Annotated[int, typer.Option(help="Random seed. A given seed always produces the same run.")] = 1,
    scale: Annotated[
        int, typer.Option(min=1, max=100, help="Factor by which to multiply the number of e-mails and slots.")
    ] = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Compare Fairpost's fair queue with other algorithms.

    Exits with code 1 if Fairpost left a slot unused while an e-mail was waiting.

    \b
    Example: fairpost simulate fairness --scenario whale --plot whale.svg
    """
    import asyncio
    import itertools
    from dataclasses import asdict

    from fairpost.cli.fairness_view import show
    from fairpost.cli.progress import progress
    from fairpost.dev.bench.workload import bench_database
    from fairpost.dev.simulate.fairness import TITLES, compare, figures
    from fairpost.dev.simulate.plot import draw
    from fairpost.dev.simulate.scenarios import scenario as scenario_of
    from fairpost.startup.parts import prepare_database
    from fairpost.store.store import Store

    require_plottable(plot)
    chosen = scenario_of(scenario, seed=seed, scale=scale)

    async def run() -> "dict[str, Record]":
        with progress(f"simulating {scenario}", total=len(TITLES) * chosen.minutes) as reach:
            async with bench_database(await prepare_database(read_settings())) as own, Store.open(own) as store:
                done = itertools.count(1)
                return await compare(store, chosen, seed=seed, progress=lambda: reach(next(done)))

    records = asyncio.run(run())
    measured = {name: figures(record) for name, record in records.items()}
    if plot is not None:
        save(draw(records), plot)
    if as_json:
        algorithms = {name: asdict(each) for name, each in measured.items()}
        print_json({"scenario": scenario.value, "seed": seed, "scale": scale, "algorithms": algorithms})
    else:
        show(records, measured)
    if measured["fairpost"].idle_slots:
        raise typer.Exit(1)


@app.command()
def abuse(
    senders: Annotated[
        int, typer.Option(min=20, max=100_000, help="Number of senders, three in four of which are honest.")
    ] = 200,
    days: Annotated[int, typer.Option(min=2, max=365, help="Duration in days.")] = 14,
    seed: Annotated[int, typer.Option(help="Random seed. A given seed always produces the same run.")] = 1,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Check which senders are throttled for abuse and how soon.

    Simulates honest senders and abusers under the engine's policy. Compares the policy with a timer that scores all senders once an hour. Needs no database.

    \b
    Example: fairpost simulate abuse --senders 100 --days 7
    """
    import itertools
    from dataclasses import asdict

    from fairpost.cli.abuse_view import show
    from fairpost.cli.progress import progress
    from fairpost.dev.simulate.abuse import Way, abuse_figures, simulate_abuse
    from fairpost.dev.simulate.abuse_plot import draw_abuse
    from fairpost.dev.simulate.senders import senders_of

    require_plottable(plot)
    drawn = senders_of(seed, senders=senders, days=days)
    with progress("simulating abuse", total=len(Way) * senders) as reach:
        done = itertools.count(1)
        stories = {way: simulate_abuse(drawn, way, days=days, progress=lambda: reach(next(done))) for way in Way}
    measured = {way: abuse_figures(each, days=days) for way, each in stories.items()}
    if plot is not None:
        save(draw_abuse(stories, measured), plot)
    if as_json:
        ours, hourly = asdict(measured[Way.EVENTS]), asdict(measured[Way.HOURLY])
        print_json({"seed": seed, "senders": senders, "days": days, **ours, "hourly": hourly})
    else:
        show(measured)


@app.command()
def providers(
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Only cases whose name contains this text. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed. A given seed always produces the same run.")] = 1,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases without running them.")] = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Check how providers that hang or reject mail affect others.

    Runs complete engines against simulated providers on a virtual clock: providers that are slow, hang at a particular step, greylist, defer one recipient, reject one sender, are down for an hour, and more. The accounts pause between e-mails, and several senders share each account. Throughout the run, the simulation checks claims, waiting times, idle accounts, limits, the log, and which senders a problem affects. Exits with code 1 if a check fails. Running all cases takes several minutes.

    \b
    Example: fairpost simulate providers --only defers-one --only 'healthy 100 ms'
    """
    import asyncio

    from fairpost.cli.progress import progress
    from fairpost.cli.providers_view import show_cases, show_results
    from fairpost.dev.bench.workload import bench_database
    from fairpost.dev.simulate.providers import CASES, START, as_facts, simulate_providers
    from fairpost.dev.simulate.providers_plot import draw_providers
    from fairpost.dev.simulate.virtual_time import run_virtually
    from fairpost.startup.parts import prepare_database

    require_plottable(plot)
    cases = [case for case in CASES if not only or any(text in case.name for text in only)]
    if not cases:
        raise typer.BadParameter("--only matches no case. See: fairpost simulate providers --list")
    if list_cases:
        show_cases(cases)
        return
    url = asyncio.run(prepare_database(read_settings()))

    async def run() -> "list[Result]":
        with progress("simulating providers", total=len(cases)) as reach:
            async with bench_database(url) as own:
                return await simulate_providers(own, cases, seed=seed, progress=reach)

    results = run_virtually(START, run)
    if plot is not None:
        save(draw_providers(results), plot)
    if as_json:
        print_json({"seed": seed, "cases": [as_facts(each) for each in results]})
    else:
        show_results(results)
    if any(each.violations for each in results):
        raise typer.Exit(1)


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number:,}" for name, number in sorted(value.items()))
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
