"""Drives one account without composing or sending, to measure what the database alone allows."""

import asyncio
import sys

from fairpost.engine.runner import Runner
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.scripted.send import ScriptedTransport


async def main(url: str, account_id: AccountId) -> None:
    async with Store.open(url, connections_max=2) as store:
        runner = await Runner.start(store, ScriptedTransport(), account_id, owner=f"ceiling {account_id}")
        assert runner is not None
        await runner.run_until_idle()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], AccountId(int(sys.argv[2]))))
