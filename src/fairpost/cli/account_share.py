"""`fairpost account share`: one account in several regions, each with a share of its limits."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.model.errors import FairpostError
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from fairpost.regions.sharing import Plan


def share(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Account in this region.")],
    slices: Annotated[
        list[str],
        typer.Option("--slice", metavar="REGION=PERCENT", help="A region's share of the account's limits. Repeatable."),
    ],
    current_limits: Annotated[
        bool,
        typer.Option(
            "--current-limits", help="Treat the account's current limits in this region as the total to divide."
        ),
    ] = False,
    old_current_limits: Annotated[
        bool, typer.Option("--anew", hidden=True)
    ] = False,  # the former name of --current-limits
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, without changing anything.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Share an account and its limits across several regions.

    Stores the account in each region, and encrypts its password separately for each one. After you change the account,
    run this command again. In each region, one worker at a time uses the account. Workers in different regions can use
    the account at the same time.

    \b
    Example: fairpost account share sales --slice eu=60 --slice us=40
    """
    import asyncio

    settings = read_settings()
    plan = asyncio.run(
        _share(settings, name, _percents(slices), current_limits=current_limits or old_current_limits, dry_run=dry_run)
    )
    if as_json:
        print_json({"name": name, "written": not dry_run, "whole": plan.whole, "slices": plan.slices})
        return
    rows = [
        (each.region, f"{each.percent}%", each.limits.in_one_line(), each.limits.units_per_minute, each.change)
        for each in plan.slices
    ]
    print_table(("region", ">slice", "limits", ">units a minute", "row"), rows)
    typer.echo("dry run: nothing was changed" if dry_run else f"shared {name}")


async def _share(
    settings: Settings, name: str, percents: dict[str, int], *, current_limits: bool, dry_run: bool
) -> "Plan":
    from fairpost.actions.installation import ShareAccount, share_account
    from fairpost.regions import sharing
    from fairpost.regions.stores import RegionStores
    from fairpost.startup.parts import directory_of, prepare_database, vault_of

    await prepare_database(settings)
    async with RegionStores(directory_of(settings)) as stores:
        plan = await sharing.plan(stores, name, percents, here=settings.region_name, current_limits=current_limits)
        if not dry_run:
            async with stores.at(settings.region_name) as here:
                await act_on(here, share_account, ShareAccount(plan=plan, stores=stores, vault=vault_of(settings)))
        return plan


def _percents(slices: list[str]) -> dict[str, int]:
    percents: dict[str, int] = {}
    for text in slices:
        region, _, percent = text.partition("=")
        if not percent.removesuffix("%").isdecimal() or region in percents:
            raise FairpostError(f"--slice must be REGION=PERCENT and can be given only once per region; got {text!r}")
        percents[region] = int(percent.removesuffix("%"))
    return percents
