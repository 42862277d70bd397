"""`make world`: runs every provider of the zoo on a real socket, a few cases at a time, and prints a table of the
results."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import asyncpg

from fairpost.cli.output import note
from fairpost.cli.providers_view import show_results
from fairpost.dev.simulate.providers import Case, Result
from fairpost.dev.simulate.zoo import ZOO
from fairpost.model.states import EmailClass
from fairpost.store.embedded import EmbeddedServer
from fairpost.store.migrations import migrate
from tests.conftest import at_database
from tests.world.world import run_for_real

AT_ONCE = 3
LASTS_S = 28.0
DOWN_LASTS_S = 60.0

CASES = (
    *(Case(behaviour="healthy", form=form, lasts_s=LASTS_S) for form in ("no pause", "100 ms", "1 s", "0-2 s")),
    Case(behaviour="healthy", form="200 ms", lasts_s=LASTS_S, whale=EmailClass.URGENT),
    Case(behaviour="healthy", form="100 ms", beside=3, engines=2, lasts_s=LASTS_S),
    Case(behaviour="healthy", form="100 ms", beside=3, is_packed=True, lasts_s=LASTS_S),
    *(
        Case(behaviour=name, form="100 ms", beside=1, lasts_s=DOWN_LASTS_S if name == "down" else LASTS_S)
        for name in ZOO
        if name not in ("healthy", "gmail-503-for-one")
    ),
    Case(
        behaviour="gmail-503-for-one", form="100 ms", lasts_s=LASTS_S
    ),  # the fault is in the address, for every account
)


async def main(only: list[str]) -> list[Result]:
    cases = [case for case in CASES if not only or any(text in case.name for text in only)]
    at_once = asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="fp") as home:
        server = EmbeddedServer(Path(home), settings={"fsync": "off", "max_connections": "300"})
        try:
            url = await asyncio.to_thread(server.start)

            async def run(number: int, case: Case) -> Result:
                async with at_once:
                    folder = Path(home) / str(number)
                    folder.mkdir()
                    found = await run_for_real(await _database(url, f"world_{number}"), case, folder)
                    note(f"{case.name}: {len(found.violations)} violations")
                    return found

            return await asyncio.gather(*(run(number, case) for number, case in enumerate(cases)))
        finally:
            server.stop("immediate")


async def _database(url: str, name: str) -> str:
    conn = await asyncpg.connect(url)
    await conn.execute(f"CREATE DATABASE {name}")
    await conn.close()
    conn = await asyncpg.connect(at_database(url, name))
    await migrate(conn)
    await conn.close()
    return at_database(url, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make world", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with this in their name")
    results = asyncio.run(main(parser.parse_args().only))
    show_results(results, again="make world ARGS='--only \"{}\"'")
    sys.exit(any(each.violations for each in results))
