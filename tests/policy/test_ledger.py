"""What is recorded of an account's work, and that it is recorded once."""

from datetime import timedelta

from fairpost.model.sender import Tier
from fairpost.policy.inequality import Waits
from fairpost.policy.ledger import Ledger, Measure


def test_outcomes_are_counted_by_user_and_taken_once() -> None:
    ledger = Ledger()
    ledger.count("acme", "ann", is_handled=True, is_sent=True)
    ledger.count("acme", "ann", is_handled=True, bounces=2, is_bounced=True)
    ledger.count("acme", "bob", is_handled=True, is_rejected=True, refusal="550 no")
    ledger.count("acme", "bob", is_handled=False, bounces=1)
    ledger.count("acme", "bob", is_handled=True, is_sent=True, is_fair=False)
    assert ledger.handled == 5
    outcomes, measures = ledger.take()
    fair = {"workspace": "acme", "is_fair": True}
    assert outcomes == [
        {
            **fair,
            "user": "ann",
            "handled": 2,
            "bounces": 2,
            "refused": 0,
            "refusal": None,
            "sent": 1,
            "bounced": 1,
            "rejected": 0,
            "offended_at": None,
        },
        {
            **fair,
            "user": "bob",
            "handled": 1,
            "bounces": 1,
            "refused": 1,
            "refusal": "550 no",
            "sent": 0,
            "bounced": 0,
            "rejected": 1,
            "offended_at": None,
        },
        {
            **fair,
            "is_fair": False,
            "user": "bob",
            "handled": 1,
            "bounces": 0,
            "refused": 0,
            "refusal": None,
            "sent": 1,
            "bounced": 0,
            "rejected": 0,
            "offended_at": None,
        },
    ]
    assert measures == []
    assert ledger.take() == ([], [])
    assert ledger.handled == 0


def test_measures_come_out_as_histograms_that_can_be_read_again() -> None:
    ledger = Ledger()
    ledger.measure(Measure.WAIT, timedelta(seconds=2), Tier.LOW)
    ledger.measure(Measure.WAIT, timedelta(seconds=4), Tier.LOW)
    ledger.measure(Measure.WAIT, timedelta(seconds=-1), Tier.HIGH)
    _, measures = ledger.take()
    low, high = measures
    assert (low["kind"], low["tier"], low["n"], low["total_us"]) == ("wait", 0, 2, 6_000_000)
    assert Waits.from_json(low).mean == timedelta(seconds=3)
    assert (high["tier"], high["total_us"]) == (2, 0)
