"""A user has one name, however it is spelled."""

from typing import Any

from fairpost.model.sender import SenderId, normalize_user
from fairpost.store import senders
from fairpost.store.store import Store
from tests.simulation.world import draft

FROM: dict[str, Any] = {"from": "ann@d1.test"}
FORMS = ("Ann Lee", "ann lee ", "ＡＮＮ lee", "ann\u00a0lee", "Ann\u200b Lee")


async def test_all_forms_of_a_name_have_one_place_in_the_queue(store: Store) -> None:
    await store.enqueue_many([draft(user=form, **FROM) for form in FORMS])
    rows = await store.fetch("SELECT DISTINCT user_name, flow FROM fairpost.queue")
    assert [row["user_name"] for row in rows] == ["ann lee"]


async def test_a_limit_set_for_one_form_holds_for_all(store: Store) -> None:
    await senders.set_limits(store, SenderId(workspace="w1", name="ANN Lee"), daily_max=3, waiting_max=None)
    rows = await store.enqueue_many([draft(user=form, **FROM) for form in FORMS])
    assert [row["error"] is None for row in rows] == [True] * 3 + [False] * 2


async def test_a_hold_of_one_form_holds_all(store: Store) -> None:
    await store.hold("w1", "user", "ANN LEE", reason="a test")
    assert await store.value("SELECT key FROM fairpost.sender_rules") == "ann lee"
    assert await store.release("w1", "user", "Ann Lee ")


async def test_a_folded_name_is_folded_and_fits_into_every_index(store: Store) -> None:
    """Covers all letters, including those that become several."""
    sql = """SELECT count(*) FROM generate_series(33, 65535) n, LATERAL (SELECT fairpost.normalize_user(repeat(chr(n), 3) || 'x')) f(name)
             WHERE n NOT BETWEEN 55296 AND 57343 AND f.name <> fairpost.normalize_user(f.name)"""
    assert await store.value(sql) == 0
    assert await store.value("SELECT max(length(fairpost.normalize_user(repeat(U&'\\FDFA', 200))))") <= 200


async def test_python_folds_ascii_as_the_database_does(store: Store) -> None:
    for name in ("Ann", " BOB@Example.com ", "a  b", "", "ÄRGER", "Straße 9"):
        found: Any = await store.value("SELECT fairpost.normalize_user($1)", name)
        assert found == normalize_user(name) or not name.isascii()
