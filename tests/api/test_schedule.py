"""A workspace's sending window and quota over HTTP."""

from datetime import UTC, datetime
from typing import Any

import httpx2 as httpx

from fairpost.model.workspace import Scope
from fairpost.system import clock
from tests.api.conftest import Api, fields_of
from tests.api.test_campaigns import PEOPLE, add_account, launched, prepare

OFFICE = {
    "timezone": "Europe/Berlin",
    "window": {"days": [1, 2, 3, 4, 5], "start": "09:00", "end": "17:00", "holidays": ["2030-01-09"]},
    "quota": {"daily_max": 200, "ramp_up_days": 10},
}
MONDAY = datetime(2030, 1, 7, 10, tzinfo=UTC)


async def test_no_schedule_is_set(client: httpx.AsyncClient) -> None:
    data = (await client.get("/v1/schedule")).json()["data"]
    assert (data["is_set"], data["timezone"], data["window"], data["is_open"]) == (False, "UTC", None, True)
    days = (await client.get("/v1/schedule/quota")).json()["data"]["days"]
    assert [(day["open"], day["allowed"], day["used"]) for day in days] == [(None, None, 0)] * 7


async def test_it_is_set_and_says_what_it_means(api: Api, client: httpx.AsyncClient) -> None:
    with clock.stopped_at(MONDAY) as now:
        answer = await client.put("/v1/schedule", json=OFFICE)
        assert answer.status_code == 200, answer.text
        data = answer.json()["data"]
        assert data["window"] == OFFICE["window"]
        assert data["quota"] == {"daily_max": 200, "ramp_up_days": 10, "ramp_up_percents": []}
        assert (data["is_set"], data["is_open"]) == (True, True)
        assert (data["opens_at"], data["closes_at"]) == (None, "2030-01-07T16:00:00Z")
        assert (await client.put("/v1/schedule", json=OFFICE)).json() == answer.json()
        quota = (await client.get("/v1/schedule/quota", params={"days": "3"})).json()["data"]
        assert [(day["day"], day["allowed"], len(day["open"])) for day in quota["days"]] == [
            ("2030-01-07", 20, 1),
            ("2030-01-08", 40, 1),
            ("2030-01-09", 40, 0),  # a holiday, which does not count
        ]
        assert quota["days"][0]["open"] == [{"opens_at": "2030-01-07T08:00:00Z", "closes_at": "2030-01-07T16:00:00Z"}]
        now.move_to(datetime(2030, 1, 7, 18, tzinfo=UTC))
        shut = (await client.get("/v1/schedule")).json()["data"]
        assert (shut["is_open"], shut["opens_at"]) == (False, "2030-01-08T08:00:00Z")
        assert (await client.put("/v1/schedule", json={})).json()["data"]["window"] is None
    audited = await api.store.fetch("SELECT action FROM fairpost.audit WHERE workspace = 'acme'")
    assert [row["action"] for row in audited] == ["schedule.set"] * 2


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"timezone": "Berlin"}, "timezone"),
    ({"timezone": "Europe/Berlin\0"}, "timezone"),
    ({"timezone": "../../etc/passwd"}, "timezone"),
    ({"window": {"days": []}}, "window.days"),
    ({"window": {"days": [8]}}, "window.days[0]"),
    ({"window": {"days": ["mon"]}}, "window.days[0]"),
    ({"window": {"start": "25:00"}}, "window.start"),
    ({"window": {"end": "9"}}, "window.end"),
    ({"window": {"holidays": ["soon"]}}, "window.holidays[0]"),
    ({"window": {"holidays": [20300101]}}, "window.holidays[0]"),
    ({"window": {"holidays": ["0001-01-01"]}}, "window.holidays[0]"),
    ({"window": {"holidays": ["2030-01-01"] * 1001}}, "window.holidays"),
    ({"quota": {"daily_max": 0}}, "quota.daily_max"),
    ({"quota": {"daily_max": 10**12}}, "quota.daily_max"),
    ({"quota": {"daily_max": True}}, "quota.daily_max"),
    ({"quota": {"ramp_up_days": 10}}, "quota.daily_max"),
    ({"quota": {"daily_max": 5, "ramp_up_days": 366}}, "quota.ramp_up_days"),
    ({"quota": {"daily_max": 5, "ramp_up_percents": [0]}}, "quota.ramp_up_percents[0]"),
    ({"quota": {"daily_max": 5, "ramp_up_days": 5, "ramp_up_percents": [10]}}, "quota.ramp_up_days"),
    ({"colour": "red"}, "colour"),
]


async def test_a_wrong_one_names_the_field(client: httpx.AsyncClient) -> None:
    wrong = []
    for given, field in WRONG:
        answer = await client.put("/v1/schedule", json=given)
        if fields_of(answer)[:1] != [field]:
            wrong.append((given, answer.text))
    assert wrong == []
    assert (await client.get("/v1/schedule")).json()["data"]["is_set"] is False


async def test_a_window_with_no_valid_day_is_reported_at_once(client: httpx.AsyncClient) -> None:
    with clock.stopped_at(MONDAY):
        mondays = [f"2030-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
        shut = {"days": [1], "start": "09:00", "end": "10:00", "holidays": mondays}
        # Every Monday of a year except the last days of the months, which are added.
        shut["holidays"] = [*mondays, *(f"2030-{m}-{d}" for m, d in _late_days()), "2031-01-06", "2031-01-07"]
        answer = await client.put("/v1/schedule", json={"window": shut})
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["details"][0]["field"] == "window.holidays"


async def test_a_quota_counts_and_holds_for_campaigns(api: Api, client: httpx.AsyncClient) -> None:
    await add_account(api, "big-relay", "default")
    await prepare(api, client)
    assert (await client.put("/v1/schedule", json={"quota": {"daily_max": 5}})).status_code == 200
    await launched(client)
    assert (await client.get("/v1/schedule")).json()["data"]["is_sending"] is True
    await api.store.value("UPDATE fairpost.quotas SET used = 5 WHERE workspace = 'acme' AND day <= current_date")
    await api.store.value(
        "SELECT fairpost.engine_here('test', false, clock_timestamp() + interval '1 hour')"
    )  # however long it takes
    today = (await client.get("/v1/schedule/quota")).json()["data"]["days"][0]
    assert (today["allowed"], today["used"]) == (5, 5)
    shown = (await client.get("/v1/campaigns/spring")).json()["data"]
    assert "5 of 5" in shown["waits_for"]
    assert shown["waits_until"] == today["ends_at"]
    assert shown["steps"][0]["emails"] == {"ready": PEOPLE}


async def test_a_schedule_is_a_workspaces_own(api: Api, client: httpx.AsyncClient) -> None:
    await api.workspace("other", domains=())
    await client.put("/v1/schedule", json=OFFICE)
    async with api.client("other") as other:
        assert (await other.get("/v1/schedule")).json()["data"]["is_set"] is False
    async with api.client(scopes=[Scope.READ, Scope.SEND]) as reader:
        assert (await reader.put("/v1/schedule", json=OFFICE)).json()["error"]["code"] == "forbidden"
    async with api.client(scopes=[Scope.MANAGE]) as manager:
        assert (await manager.get("/v1/schedule/quota")).json()["error"]["code"] == "forbidden"
    assert (await client.get("/v1/schedule/quota", params={"days": "61"})).status_code == 422


def _late_days() -> list[tuple[str, str]]:
    return [(f"{m:02}", f"{d}") for m in range(1, 13) for d in (29, 30, 31) if _is_day(m, d)]


def _is_day(month: int, day: int) -> bool:
    try:
        datetime(2030, month, day)
    except ValueError:
        return False
    return True
