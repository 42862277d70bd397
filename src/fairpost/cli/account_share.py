"""`fairpost account share`: one account in several regions, each with a part of its limits."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairpost.cli.acting import act_on
from fairpost.cli.output import AsJson, print_json, print_table
from fairpost.model.errors import FairpostError
from fairpost.settings import Settings, read_settings

if TYPE_CHECKING:
    from fairpost.regions.sharing import Plan


def share(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An account of this region.")],
    slices: Annotated[
        list[str],
        typer.Option("--slice", metavar="REGION=PERCENT", help="The part of its limits that a region has. Repeat it."),
    ],
    anew: Annotated[
        bool, typer.Option("--anew", help="The limits that it has in this region now are the whole ones.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Use an account in several regions, each with a part of its limits.

    Writes a row into each region, with its password sealed for that row. Run it again after a change. In each region one
    worker drives it at a time; the regions do not wait for each other.

    \b
    Example: fairpost account share sales --slice eu=60 --slice us=40
    """
    import asyncio

    settings = read_settings()
    plan = asyncio.run(_share(settings, name, _percents(slices), anew=anew, dry_run=dry_run))
    if as_json:
        print_json({"name": name, "written": not dry_run, "whole": plan.whole, "slices": plan.slices})
        return
    rows = [
        (each.region, f"{each.percent} %", each.limits.in_one_line(), each.limits.units_per_minute, each.change)
        for each in plan.slices
    ]
    print_table(("region", ">slice", "limits", ">units a minute", "row"), rows)
    typer.echo("nothing was written: this is a dry run" if dry_run else f"shared {name}")


async def _share(settings: Settings, name: str, percents: dict[str, int], *, anew: bool, dry_run: bool) -> "Plan":
    from fairpost.actions.installation import ShareAccount, share_account
    from fairpost.regions import sharing
    from fairpost.regions.stores import RegionStores
    from fairpost.startup.parts import directory_of, prepare_database, vault_of

    await prepare_database(settings)
    async with RegionStores(directory_of(settings)) as stores:
        plan = await sharing.plan(stores, name, percents, here=settings.region_name, anew=anew)
        if not dry_run:
            async with stores.at(settings.region_name) as here:
                await act_on(here, share_account, ShareAccount(plan=plan, stores=stores, vault=vault_of(settings)))
        return plan


def _percents(slices: list[str]) -> dict[str, int]:
    percents: dict[str, int] = {}
    for text in slices:
        region, _, percent = text.partition("=")
        if not percent.removesuffix("%").isdecimal() or region in percents:
            raise FairpostError(f"--slice must be REGION=PERCENT, each region once, got {text!r}")
        percents[region] = int(percent.removesuffix("%"))
    return percents
