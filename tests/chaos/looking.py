"""One look of a part of an engine's mind, in a process of its own that can be killed: at the moment it is told, whatever the clock says.

Usage: python -m tests.chaos.looking URL, then for each look a line: campaigns, courses or senders, and the moment. A look is a fork of
this process, which has loaded everything; it tells the pid of each, and how it ended.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from fairpost.deliver.campaigns import CampaignWatch
from fairpost.deliver.courses import CourseWatch
from fairpost.deliver.senders import SenderOptions, SenderWatch
from fairpost.model.sender import AbuseMode, Fairness
from fairpost.policy.abuse import AbusePolicy
from fairpost.policy.senders import SenderPolicy
from fairpost.postgres.store import Store
from fairpost.system import clock

Part = Literal["campaigns", "courses", "senders"]
OPERATORS = ("ops@here.test", "boss@here.test")


@dataclass(frozen=True)
class Mind:
    process: asyncio.subprocess.Process
    failpoint: Path

    @classmethod
    @asynccontextmanager
    async def made(cls, url: str, folder: Path) -> "AsyncIterator[Mind]":
        failpoint = folder / "failpoint"
        env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOST_")}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**env, "FAIRPOST_FAILPOINT_FILE": str(failpoint)},
        )
        assert process.stdin is not None
        try:
            yield cls(process, failpoint)
        finally:
            process.stdin.close()
            await process.wait()

    async def look(self, part: Part, *, dies: str | None = None) -> int:
        """At our own moment; how it ended. `dies`: at this failpoint."""
        if dies is not None:
            self.failpoint.write_text(dies)
        await self.begin(part)
        return await self.ended()

    async def begin(self, part: Part) -> int:
        """Its pid."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{part} {clock.now().isoformat()}\n".encode())
        return await self._number()

    async def ended(self) -> int:
        return await self._number()

    async def _number(self) -> int:
        assert self.process.stdout is not None
        return int(await self.process.stdout.readline())


async def _campaigns(store: Store) -> None:
    await CampaignWatch(store, log=_say).step()


async def _courses(store: Store) -> None:
    await CourseWatch(store, log=_say).step()


async def _senders(store: Store) -> None:
    policy = SenderPolicy(abuse=AbusePolicy(mode=AbuseMode.ENFORCE))
    watch = SenderWatch(store, SenderOptions(policy=policy, fairness=Fairness(), operators=OPERATORS), _say)
    await watch.start()
    await watch.step()


PARTS: dict[str, Callable[[Store], Awaitable[None]]] = {
    "campaigns": _campaigns,
    "courses": _courses,
    "senders": _senders,
}


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


async def _look(url: str, part: str) -> None:
    async with Store.open(url) as store:
        await PARTS[part](store)


def main(url: str) -> None:
    for line in sys.stdin:
        part, moment = line.split()
        pid = os.fork()
        if not pid:
            with clock.stopped_at(datetime.fromisoformat(moment)):
                asyncio.run(_look(url, part))
            sys.exit()
        _tell(pid)
        _tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main(sys.argv[1])
