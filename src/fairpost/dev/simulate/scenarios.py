"""The scenarios of `fairpost simulate fairness` as data: the e-mails of each sender, minute by minute.

The senders in a scenario are siblings in the flow tree (workspaces, or the users of one domain), so each sender's fair
share depends only on its weight. The release of the e-mails is implemented elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fairpost.system.chance import Dice, dice

SPREAD_OVER = 20  # domains


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A sender. `is_small` means that large senders must not lengthen this sender's waits."""

    name: str
    group: str
    workspace: str
    domains: tuple[str, ...]
    user: str = "u"
    level: Literal["workspace", "user"] = "workspace"  # the level to which the weight and the throttle apply
    weight: float = 1.0
    is_small: bool = False
    bounce_share: float = 0.0

    @property
    def key(self) -> str:
        return self.user if self.level == "user" else ""


@dataclass(frozen=True, slots=True)
class Arrival:
    minute: int
    sender: Sender
    emails: int


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle. Nothing is sent for the sender from the given minute on."""

    minute: int
    sender: Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    about: str
    minutes: int
    slots_per_minute: int
    arrivals: tuple[Arrival, ...]  # sorted by minute, and within a minute in the order of arrival
    throttles: tuple[Throttle, ...] = ()

    @property
    def senders(self) -> tuple[Sender, ...]:
        return tuple(dict.fromkeys(arrival.sender for arrival in self.arrivals))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups: large ones first, then by descending weight."""
        ordered = sorted(self.senders, key=lambda sender: (sender.is_small, -sender.weight, sender.group))
        return tuple(dict.fromkeys(sender.group for sender in ordered))


@dataclass(frozen=True, slots=True)
class _Dice:
    """Seeded dice. `scale` multiplies every amount, including the slots, but not the number of senders or minutes. A
    scale below 1 is suitable only for a quick look, because each sender still has at least one e-mail.
    """

    roll: Dice
    scale: float

    def whole(self, low: int, high: int) -> int:
        """Returns a number between low and high, inclusive."""
        return low + int(self.roll() * (high - low + 1))

    def times(self, n: int) -> int:
        return max(1, round(n * self.scale))

    def in_order(self, arrivals: list[Arrival]) -> tuple[Arrival, ...]:
        """Sorts the arrivals by minute. The order within a minute is random."""
        return tuple(a for _, _, a in sorted((a.minute, self.roll(), a) for a in arrivals))


def scenario(name: str, *, seed: int, scale: float = 1.0) -> Scenario:
    return SCENARIOS[name](_Dice(dice(f"{name} {seed}"), scale))


def _workspace(
    name: str, group: str, *, domains: tuple[str, ...] = (), is_small: bool = False, bounce_share: float = 0.0
) -> Sender:
    return Sender(
        name=name,
        group=group,
        workspace=name,
        domains=domains or (f"{name}.test",),
        is_small=is_small,
        bounce_share=bounce_share,
    )


def _whale(d: _Dice) -> Scenario:
    whale = _workspace("whale", "whale")
    small = [_workspace(f"small{n}", "small", is_small=True) for n in range(50)]
    late = _workspace("late", "newcomer", is_small=True)
    return Scenario(
        name="whale",
        about="one sender with a large backlog; a minute later, fifty senders with ten e-mails each; then one sender with a single e-mail",
        minutes=180,
        slots_per_minute=d.times(60),
        arrivals=d.in_order(
            [
                Arrival(0, whale, d.times(10_000)),
                *(Arrival(1, sender, d.times(10)) for sender in small),
                Arrival(d.whole(20, 60), late, 1),
            ]
        ),
    )


def _thousand_small(d: _Dice) -> Scenario:
    large = [_workspace(f"large{n}", f"large{n}") for n in (1, 2)]
    domains = tuple(f"spread{n}.test" for n in range(SPREAD_OVER))
    spreader = _workspace("spreader", "spreader", domains=domains)
    small = [_workspace(f"small{n}", "small", is_small=True) for n in range(1000)]
    late = [_workspace(f"late{n}", "newcomer", is_small=True) for n in range(5)]
    return Scenario(
        name="thousand-small",
        about=f"a thousand senders with a few e-mails each and three large ones, one of which is spread over {SPREAD_OVER} domains",
        minutes=30,
        slots_per_minute=d.times(600),
        arrivals=d.in_order(
            [
                *(Arrival(0, sender, d.times(4000)) for sender in (*large, spreader)),
                *(Arrival(d.whole(0, 4), sender, d.times(d.whole(1, 5))) for sender in small),
                *(Arrival(d.whole(3, 15), sender, 1) for sender in late),
            ]
        ),
    )


def _abuser(d: _Dice) -> Scenario:
    honest = [_workspace(f"honest{n}", "honest", is_small=True, bounce_share=0.01) for n in range(20)]
    abuser = _workspace("abuser", "abuser", bounce_share=0.3)
    bursts = [
        Arrival(minute, sender, d.times(d.whole(20, 40)))
        for sender in honest
        for minute in sorted({d.whole(0, 50) for _ in range(3)})
    ]
    flood = [Arrival(minute, abuser, d.times(300)) for minute in range(5, 25)]
    return Scenario(
        name="abuser",
        about="twenty honest senders with bursts, and one that floods from minute 5 on with 30% bounces and is throttled from minute 20 on",
        minutes=70,
        slots_per_minute=d.times(60),  # the honest senders need slightly more than half of the slots
        arrivals=d.in_order(bursts + flood),
        throttles=(Throttle(20, abuser),),
    )


def _tiers(d: _Dice) -> Scenario:
    def user(name: str, group: str, weight: float = 1.0, *, is_small: bool = False) -> Sender:
        return Sender(
            name=name,
            group=group,
            workspace="company",
            domains=("company.test",),
            user=name,
            level="user",
            weight=weight,
            is_small=is_small,
        )

    weights = {"high": 2.0, "normal": 1.0, "low": 0.5, "throttled": 0.1}
    busy = [user(f"{tier}{n}", tier, weight) for tier, weight in weights.items() for n in (1, 2)]
    occasional = [user(f"occasional{n}", "occasional", is_small=True) for n in range(6)]
    return Scenario(
        name="tiers",
        about="users of one domain with weights of 2, 1, 0.5 and 0.1, two users of each, all with more e-mails than slots; six others occasionally send a single e-mail",
        minutes=30,
        slots_per_minute=d.times(72),
        arrivals=d.in_order(
            [
                *(Arrival(0, sender, d.times(700)) for sender in busy),
                *(Arrival(d.whole(1, 25), sender, 1) for sender in occasional),
            ]
        ),
    )


def _churn(d: _Dice) -> Scenario:
    arrivals = []
    for minute in range(50):
        bulky = _workspace(f"bulky{minute}", "bulky")
        arrivals.append(Arrival(minute, bulky, d.times(d.whole(30, 90))))
        for n in range(3):
            guest = _workspace(f"guest{minute}-{n}", "guest", is_small=True)
            stays = range(minute, minute + d.whole(3, 7))
            arrivals += [Arrival(each, guest, d.times(d.whole(1, 5))) for each in stays]
    return Scenario(
        name="churn",
        about="four new senders each minute: one queues many e-mails at once, and three queue a few per minute and stop after several minutes",
        minutes=60,
        slots_per_minute=d.times(100),
        arrivals=d.in_order(arrivals),
    )


SCENARIOS: dict[str, Callable[[_Dice], Scenario]] = {
    "whale": _whale,
    "thousand-small": _thousand_small,
    "abuser": _abuser,
    "tiers": _tiers,
    "churn": _churn,
}
