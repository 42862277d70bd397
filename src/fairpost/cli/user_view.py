"""Senders as tables and as JSON, with what blocks their mail."""

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairpost.cli.output import jsonable, print_pairs, print_table, when
from fairpost.model.sender import SenderLevel, Tier
from fairpost.reasons.rendering import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpost.model.sender import Fairness, Sender, SenderId
    from fairpost.observe.senders import ShownSender
    from fairpost.policy.abuse import Day
    from fairpost.policy.facts import Stop
    from fairpost.policy.senders import SenderPolicy
    from fairpost.settings import Settings

Pairs = list[tuple[str, object]]


def sender_facts(sender: "Sender") -> dict[str, Any]:
    """Return one sender as JSON. `user` is null for the workspace itself."""
    throttle = sender.throttle and {
        "since": sender.throttle.since,
        "until": sender.throttle.until,
        "is_enforced": sender.is_enforced,
        "is_by_hand": sender.is_by_hand,
        "score": sender.score,
        "reasons": sender.reasons,
    }
    return {
        "workspace": sender.id.workspace,
        "user": sender.id.name if sender.id.level is SenderLevel.USER else None,
        "plan": sender.plan,
        "since": sender.since,
        "tier": tier_name(sender.tier),
        "throttle": throttle,
        "immune_until": sender.immune_until,
        "daily_max": sender.daily_max,
        "waiting_max": sender.waiting_max,
    }


def shown_facts(shown: "ShownSender") -> dict[str, Any]:
    score = shown.score
    return {
        **sender_facts(shown.sender),
        "weight": _weight(shown.sender.tier, shown.fairness),
        "score": score and score.value,
        "confidence": score and round(score.confidence, 3),
        "reasons": score.reasons if score else (),
        "last_24h": shown.day.counts,
        "usual_per_day": _usual(shown.day),
        "waiting": shown.waiting,
        "home": shown.home,
        "held_back_by": [stop_facts(stop) for stop in shown.stops],
        "next": _next_steps(shown),
    }


def print_senders(senders: "Sequence[Sender]") -> None:
    columns = ("workspace", "user", "plan", "since", "tier", "throttled", ">score", "why")
    print_table(columns, map(_row, senders))


def _row(sender: "Sender") -> tuple[object, ...]:
    throttle = sender.throttle
    until = throttle and f"{'until' if sender.is_enforced else 'observed, until'} {clock_time(throttle.until)}"
    return (
        sender.id.workspace,
        sender.id.name if sender.id.level is SenderLevel.USER else "(the workspace itself)",
        sender.plan,
        sender.since and clock_time(sender.since),
        tier_name(sender.tier),
        until,
        sender.score if throttle and not sender.is_by_hand else None,
        "; ".join(map(brief, sender.reasons)),
    )


def print_sender(shown: "ShownSender", settings: "Settings", policy: "SenderPolicy") -> None:
    sender, is_user = shown.sender, shown.sender.id.level is SenderLevel.USER
    print_pairs(
        [
            ("workspace", sender.id.workspace),
            ("user", sender.id.name if is_user else "(the workspace itself)"),
            ("plan", sender.plan or "unknown"),
            ("since", when(sender.since, shown.now) or "unknown, treated as established"),
            ("tier", _tier_in_words(shown, policy)),
            *_deeds(shown, settings, policy),
            ("throttle", _throttle_in_words(sender, shown.now)),
            ("immune", _immunity_in_words(sender, shown.now)),
            ("waiting", emails(shown.waiting)),
            *stop_lines(_other_stops(shown)),
            *(("next", step) for step in _next_steps(shown)),
        ]
    )


def _deeds(shown: "ShownSender", settings: "Settings", policy: "SenderPolicy") -> Pairs:
    counts, score, usual = shown.day.counts, shown.score, _usual(shown.day)
    done = f"{counts.sent:,} sent, {counts.bounced:,} bounced, {counts.rejected:,} rejected"
    is_user = shown.sender.id.level is SenderLevel.USER
    scored = "none: senders are not scored (FAIRPOST_ABUSE_DETECTION)"
    if not is_user and shown.sender.id.workspace in policy.trusted:
        scored = "none: your own workspace is not scored (FAIRPOST_WORKSPACE)"
    if score is not None:
        scored = f"{score.value} of 100, confidence {score.confidence:.2f}; throttled if the score exceeds {policy.abuse.threshold}"
    return [
        (
            "home",
            ("none yet" if shown.home is None else shown.home or "(the account's own domain)") if is_user else None,
        ),
        ("limits", _limits_in_words(shown.sender, settings)),
        ("last 24 h", f"{emails(counts.volume)} due; {done}"),
        ("usual", "no earlier mail" if usual is None else f"{usual:.1f} a day"),
        ("score", scored),
        *(("because", brief(reason)) for reason in (score.reasons if score else ())),
    ]


def _tier_in_words(shown: "ShownSender", policy: "SenderPolicy") -> str:
    from fairpost.policy.tiers import tier_until

    sender, fairness = shown.sender, shown.fairness
    worth = f"weight {_weight(sender.tier, fairness):g}"
    if fairness.has_lanes:
        worth = f"the lane with {fairness.shares[sender.tier + 1]}% of the capacity"
    grows_up = tier_until(sender.plan, created_at=sender.since, throttle=None, now=shown.now, plans=policy.plans)
    until = f", until {when(grows_up, shown.now)}" if grows_up and sender.tier is Tier.LOW else ""
    return f"{tier_name(sender.tier)}: {worth}{until}"


def _weight(tier: Tier, fairness: "Fairness") -> float:
    """Return the weight as stored in the database, where an ordinary sender has a weight of 1."""
    return fairness.weights[tier + 1] / fairness.weights[Tier.NORMAL + 1]


def _limits_in_words(sender: "Sender", settings: "Settings") -> str:
    """Describe the limits. Limits from the settings apply only over SMTP and HTTP."""
    is_user = sender.id.level is SenderLevel.USER
    return "; ".join(
        (
            _limit(
                sender.daily_max, settings.user_daily_max if is_user else settings.daily_max_of_workspace, "in 24 hours"
            ),
            _limit(sender.waiting_max, settings.user_waiting_max if is_user else 0, "waiting"),
        )
    )


def _limit(own: int | None, setting: int, what: str) -> str:
    if own is not None:
        return f"{own:,} {what}"
    return f"{setting:,} {what}, over SMTP and HTTP" if setting else f"unlimited {what}"


def _usual(day: "Day") -> float | None:
    return day.past_volume / day.past_days if day.past_days else None


def _throttle_in_words(sender: "Sender", now: datetime) -> str | None:
    throttle = sender.throttle
    if throttle is None:
        return None
    whose = "set manually" if sender.is_by_hand else "set by its score"
    effect = "" if sender.is_enforced else ", observed only"
    if sender.is_enforced and not throttle.holds(now):
        effect = ", ended; its tier's weight is kept until the score falls"
    span = f"since {when(throttle.since, now)}, until {when(throttle.until, now)}"
    return f"{span}, {whose}{effect}: {'; '.join(map(brief, sender.reasons)) or 'no reason given'}"


def _immunity_in_words(sender: "Sender", now: datetime) -> str | None:
    until = sender.immune_until
    return f"no score can throttle it until {when(until, now)}" if until is not None and until > now else None


def _other_stops(shown: "ShownSender") -> "list[Stop]":
    """Return all stops except the sender's own throttle, which is shown in more detail."""
    own = (shown.sender.id.level, shown.sender.id.name, True)
    return [stop for stop in shown.stops if (stop.level, stop.key, stop.is_throttle) != own]


def _next_steps(shown: "ShownSender") -> list[str]:
    names = names_of(shown.sender.id)
    steps = next_steps(_other_stops(shown))
    if shown.sender.throttle is not None:
        steps.append(f"fairpost user unthrottle --workspace {names}")
    elif shown.sender.plan is None and shown.sender.since is None:
        steps.append(f"fairpost user set --workspace {names} --plan PLAN --since DATE")
    return steps


def stop_facts(stop: "Stop") -> dict[str, Any]:
    return {**jsonable(stop), "is_throttle": stop.is_throttle}


def stop_lines(stops: "Sequence[Stop]") -> Pairs:
    """Return one line for each stop that blocks mail."""
    return [(stop.kind, _stop_in_words(stop)) for stop in stops]


def next_steps(stops: "Sequence[Stop]") -> list[str]:
    """Return the commands that end the stops."""
    from fairpost.observe.emails import as_hold
    from fairpost.policy.conditions import of_hold
    from fairpost.reasons.rendering import command

    conditions = [of_hold(as_hold(stop)) for stop in stops]
    return [following for each in conditions if (following := command(each.reason))]


def _stop_in_words(stop: "Stop") -> str:
    name = f"workspace {stop.workspace}" if stop.level == "workspace" else f"{stop.level} {stop.key}"
    until = f"until {clock_time(stop.until)}" if stop.until else "until released"
    return f"{name}, {until}: {brief(stop.reason) if stop.reason else 'no reason given'}"


def names_of(id_: "SenderId") -> str:
    """Return the names as arguments of a command."""
    return shlex.join((id_.workspace, id_.name) if id_.level is SenderLevel.USER else (id_.workspace,))


def tier_name(tier: Tier) -> str:
    return tier.name.lower()


def clock_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def emails(n: int) -> str:
    return "1 e-mail" if n == 1 else f"{n:,} e-mails"
