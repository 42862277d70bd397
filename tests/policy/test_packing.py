from dataclasses import replace

import pytest

from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.ids import AccountId
from fairpost.policy.packing import ALONE, Place, place_of, relays_per_process

RELAY = Account(
    id=AccountId(1),
    name="relay",
    address="relay@post.test",
    display_name=None,
    pool="default",
    status=AccountStatus.ACTIVE,
    status_reason=None,
    limits=Limits(),
    usage=Usage(),
    transport=None,
)
MAILBOX = replace(RELAY, limits=Limits(delay_ms=30_000))


def placed(account: Account, *, per_process: int | None = None, is_suspect: bool = False, few: bool = True) -> Place:
    return place_of(account, per_process=per_process, is_suspect=is_suspect, may_be_alone=few, cores=2)


def test_relays_of_the_operator_share_a_process() -> None:
    place = placed(RELAY)
    assert place.is_shared
    assert placed(replace(RELAY, id=AccountId(2), name="other", pool="another")) == place


def test_relays_of_different_workspaces_never_share_one() -> None:
    acme, bolt = replace(RELAY, name="acme/relay"), replace(RELAY, name="bolt/relay")
    assert len({placed(RELAY), placed(acme), placed(bolt)}) == 3
    assert placed(replace(acme, name="acme/second")) == placed(acme)


@pytest.mark.parametrize(("cores", "relays"), [(1, 64), (2, 64), (4, 32), (8, 16), (96, 16)])
def test_with_more_cores_fewer_relays_share_a_process(cores: int, relays: int) -> None:
    assert relays_per_process(cores) == relays


@pytest.mark.parametrize("limits", [Limits(delay_ms=1), Limits(gap_max_ms=5000)])
def test_a_mailbox_with_a_pause_has_a_process_of_its_own(limits: Limits) -> None:
    assert placed(replace(RELAY, limits=limits)) == ALONE


def test_mailboxes_share_processes_once_there_are_many() -> None:
    assert placed(MAILBOX) == ALONE
    assert placed(MAILBOX, few=False).is_shared


def test_the_operators_settings_apply_to_all() -> None:
    assert placed(RELAY, per_process=1).room == 1
    assert placed(MAILBOX, per_process=50) == placed(replace(RELAY, name="acme/relay"), per_process=50)


def test_a_suspect_is_alone_whatever_the_operator_says() -> None:
    assert placed(RELAY, is_suspect=True) == placed(RELAY, per_process=50, is_suspect=True) == ALONE
