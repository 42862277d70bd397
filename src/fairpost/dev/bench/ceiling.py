"""Drives accounts in one process without composing or sending, to measure what the database alone allows."""

import asyncio
import sys

from fairpost.engine.runner import Runner
from fairpost.engine.together import Together
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.scripted.send import ScriptedTransport


async def main(url: str, accounts: list[AccountId]) -> None:
    async with Store.open(url, connections_max=8) as store:
        together = Together.over(store)
        await asyncio.gather(*(_drive(store, account, together) for account in accounts))


async def _drive(store: Store, account: AccountId, together: Together) -> None:
    owner = f"ceiling {account}"
    runner = await Runner.start(store, ScriptedTransport(), account, owner=owner, together=together)
    assert runner is not None
    await runner.run_until_idle()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [AccountId(int(each)) for each in sys.argv[2:]]))
