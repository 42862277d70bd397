"""One commit for all accounts of a process that are ready: each settles its last e-mail and begins its next.

A step waits briefly until half of the working accounts have asked, and until any commit in progress has finished. A
step that cannot share a commit (because it is not ordinary, its rows are locked, or it makes the commit fail or wait
too long) is taken alone, with the same number. If the database is in trouble, every request fails, and each account
resumes its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fairpost.engine.settle import TakeStep
from fairpost.model.ids import AccountId
from fairpost.model.step import StepAnswer, StepRequest
from fairpost.store.step_groups import is_ordinary, take_steps
from fairpost.store.store import Store
from fairpost.store.trouble import is_rolled_back, is_trouble
from fairpost.system.failpoints import failpoint

TakeSteps = Callable[[Sequence[StepRequest]], Awaitable[list[StepAnswer | None]]]
Asked = tuple[StepRequest, "asyncio.Future[StepAnswer]"]

STREAMS = 2  # concurrent commits; the second one is only for two accounts or more
TOGETHER_MAX = 64  # steps per commit
GATHER_S = 0.002  # how long to wait for half of the working accounts
AT_WORK_S = 1.0  # an account that took a step within this time counts as working
ALONE_MAX = 4  # concurrent steps taken alone: each may wait for a lock, and other work also needs connections


class StepGroup:
    def __init__(self, together: TakeSteps, alone: TakeStep) -> None:
        self._together = together
        self._alone = alone
        self._asked: list[Asked] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._left_out: set[asyncio.Task[None]] = set()
        self._places_alone = asyncio.Semaphore(ALONE_MAX)
        self._is_called = False
        self._alarm: asyncio.TimerHandle | None = None  # a timer that is set while some steps wait for others
        self._at_work: dict[AccountId, float] = {}  # when each account last asked, the most recent at the end

    @classmethod
    def of(cls, store: Store) -> "StepGroup":
        async def together(requests: Sequence[StepRequest]) -> list[StepAnswer | None]:
            return await take_steps(store, requests)

        return cls(together, store.take_step)

    async def take_step(self, request: StepRequest) -> StepAnswer:
        if not is_ordinary(request):
            return await self._take_alone(request)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[StepAnswer] = loop.create_future()
        self._asked.append((request, answer))
        self._works(request.lease.account_id, loop.time())
        if not self._is_called:  # the commit starts after all steps that are ready in this turn of the loop
            self._is_called = True
            loop.call_soon(self._commit_next)
        return await answer

    def _works(self, account_id: AccountId, now_s: float) -> None:
        self._at_work.pop(account_id, None)
        self._at_work[account_id] = now_s
        while self._at_work[first := next(iter(self._at_work))] < now_s - AT_WORK_S:
            del self._at_work[first]

    def _commit_next(self) -> None:
        self._is_called = False
        if not self._asked or len(self._under_way) >= STREAMS:
            return
        if len(self._asked) * 2 < len(self._at_work):
            if self._alarm is None:
                self._alarm = asyncio.get_running_loop().call_later(GATHER_S, self._gathered)
            return
        if not self._under_way or len(self._asked) > 1:
            self._commit_asked()

    def _gathered(self) -> None:
        """Commit even though no other step arrived in time."""
        self._alarm = None
        if self._asked and not self._under_way:
            self._commit_asked()

    def _commit_asked(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        asked, self._asked = self._asked[:TOGETHER_MAX], self._asked[TOGETHER_MAX:]
        task = asyncio.create_task(self._commit(asked))
        self._under_way.add(task)
        task.add_done_callback(self._committed)

    def _committed(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if not self._is_called:
            self._commit_next()

    async def _commit(self, asked: list[Asked]) -> None:
        asked = [(request, answer) for request, answer in asked if not answer.done()]
        loop = asyncio.get_running_loop()
        for request, _ in asked:
            if request.meanwhile is not None:
                loop.call_soon(request.meanwhile)  # runs as soon as the commit has been sent
        try:
            answers = await self._together([request for request, _ in asked])
            failpoint("after_group")
        except BaseException as error:
            if not isinstance(error, Exception) or (is_trouble(error) and not is_rolled_back(error)):
                for _, answer in asked:
                    _fail(answer, error)
                return
            answers = [None] * len(asked)  # one step makes the commit fail or wait: taken alone, only that one does
        for (request, answer), taken in zip(asked, answers, strict=True):
            if taken is not None:
                _give(answer, taken)
            elif not answer.done():
                task = asyncio.create_task(self._answer_alone(request, answer))
                self._left_out.add(task)
                task.add_done_callback(self._left_out.discard)

    async def _answer_alone(self, request: StepRequest, answer: "asyncio.Future[StepAnswer]") -> None:
        try:
            _give(answer, await self._take_alone(request))
        except BaseException as error:
            _fail(answer, error)

    async def _take_alone(self, request: StepRequest) -> StepAnswer:
        async with self._places_alone:
            return await self._alone(request)


def _give(answer: "asyncio.Future[StepAnswer]", taken: StepAnswer) -> None:
    if not answer.done():
        answer.set_result(taken)


def _fail(answer: "asyncio.Future[StepAnswer]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
