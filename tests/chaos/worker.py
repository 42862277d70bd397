"""A worker process for the chaos tests: drives one account until nothing is left, and notes every message that is out.

Usage: worker.py URL ACCOUNT_ID FD, where FD is the writing end of a pipe.
"""

import asyncio
import os
import sys

from fairpost.deliver.runner import Idle, Rested, Runner
from fairpost.model.account import Account
from fairpost.model.email import Outgoing
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached, Report
from fairpost.postgres.store import Store
from fairpost.transport.port import Permission
from fairpost.transport.scripted import OK

LEASE_S = 0.5


class LoggingTransport:
    """One line for each message, written in one go: it is out, whatever becomes of us."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def send(self, account: Account, email: Outgoing, *, permission: Permission) -> Report:
        await asyncio.sleep(0)
        if not permission():
            return Report(reached=Reached.UNTOUCHED, error="the lease ran out before the message was complete")
        os.write(self._fd, f"{email.id}\n".encode())
        return OK


async def main(url: str, account_id: AccountId, fd: int) -> None:
    async with Store.open(url, connections_max=1) as store:
        runner = await take(store, LoggingTransport(fd), account_id)
        while True:
            match await runner.step():
                case Rested(Idle.BUSY):
                    await runner.await_turn()
                case Rested(Idle.LOST):  # a machine so busy that the lease ran out: the engine would begin again too
                    runner = await take(store, LoggingTransport(fd), account_id)
                case Rested():
                    break
        await runner.stop()


async def take(store: Store, transport: LoggingTransport, account_id: AccountId) -> Runner:
    while (runner := await Runner.start(store, transport, account_id, owner="chaos", lease_s=LEASE_S)) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # the last one died with the lease in its hand
    return runner


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], AccountId(int(sys.argv[2])), int(sys.argv[3])))
