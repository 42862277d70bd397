"""How the settings configure the parts."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from fairpost.model.sender import AbuseMode, Fairness
from fairpost.policy.senders import SenderPolicy
from fairpost.policy.tiers import Plans
from fairpost.settings import Settings, read_settings
from fairpost.smtp.guard import NetworkGuard
from fairpost.startup.parts import fairness_of, network_guard, sender_policy


def settings(**variables: str) -> Settings:
    return read_settings({f"FAIRPOST_{name.upper()}": value for name, value in variables.items()})


def test_without_settings_policies_are_what_they_are_by_themselves() -> None:
    policy = sender_policy(settings())
    assert policy.plans == SenderPolicy().plans
    assert (policy.abuse.threshold, policy.abuse.throttle_max) == (50, timedelta(hours=24))
    fairness = fairness_of(settings())
    assert fairness == Fairness(plans=fairness.plans)
    assert fairness.plans != fairness_of(settings(paid_plans="gold")).plans


def test_every_setting_of_senders_reaches_its_policy() -> None:
    policy = sender_policy(
        settings(
            abuse_detection="observe",
            abuse_threshold="60",
            throttle_max="8h",
            paid_plans="gold,team",
            free_plans="trial",
        )
    )
    assert (policy.abuse.mode, policy.abuse.threshold) == (AbuseMode.OBSERVE, 60)
    assert policy.abuse.throttle_max == timedelta(hours=8)
    assert policy.plans == Plans(paid=frozenset({"gold", "team"}), free=frozenset({"trial"}))


def test_weights_and_shares_go_from_the_lowest_tier_to_the_highest() -> None:
    fairness = fairness_of(
        settings(fair_queue="50%", priority="lanes", tier_weights="4,3,2,1", lane_shares="50,30,15,5", max_queue="1000")
    )
    assert (fairness.share, fairness.has_lanes, fairness.queue_max) == (50, True, 1000)
    assert (fairness.weights, fairness.shares) == ((1, 2, 3, 4), (5, 15, 30, 50))


@pytest.mark.parametrize(("mode", "is_scoring"), [("off", False), ("observe", True), ("enforce", True)])
def test_an_unscored_sender_is_not_marked_as_changed(mode: str, is_scoring: bool) -> None:
    assert fairness_of(settings(abuse_detection=mode)).is_scoring is is_scoring


def test_without_settings_nothing_is_allowed_but_the_public_internet_and_the_ports_of_mail() -> None:
    assert network_guard(settings()) == NetworkGuard()


def test_networks_and_ports_reach_the_guard() -> None:
    guard = network_guard(settings(allowed_networks="10.1.0.0/16, fd00:1::/32,10.9.9.9", allowed_ports="25, 1025"))
    assert guard.allowed == (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"), ip_network("10.9.9.9/32"))
    assert guard.ports == {25, 1025}
