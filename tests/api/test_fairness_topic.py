"""Fairness as a live topic: the whole installation for admins, a workspace's own part for its members."""

from datetime import timedelta

from fairpost.model.account import Limits
from fairpost.model.auth import Role
from fairpost.model.reason import Reason
from fairpost.model.sender import Sender, SenderId, Throttle, Tier
from fairpost.reasons.rendering import brief
from fairpost.store import senders
from fairpost.system import clock
from tests.api.conftest import Api
from tests.api.signed_in import signed_in
from tests.api.test_live import watching
from tests.engine.test_runner import deliver

BURST = Reason("sender.unusual_volume", volume=9, factor=5, usual=1)


async def enqueue(api: Api, workspace: str, user: str, n: int) -> None:
    email = {"workspace": workspace, "user": user, "to": "ann@there.test", "subject": "s", "text": "t"}
    await api.store.enqueue_many([email] * n)


async def throttle(api: Api, workspace: str, user: str, *, is_enforced: bool = True) -> None:
    now = clock.now()
    sender = Sender(
        id=SenderId(workspace=workspace, name=user),
        tier=Tier.THROTTLED if is_enforced else Tier.NORMAL,
        throttle=Throttle(since=now, until=now + timedelta(hours=2)),
        is_enforced=is_enforced,
        score=77,
        reasons=(BURST,),
    )
    assert await senders.decide(api.store, sender, is_new=True)


async def test_an_admin_sees_all_and_a_workspace_its_own(api: Api) -> None:
    await api.workspace()
    account = await api.store.add_account("own", address="own@acme.example", limits=Limits())
    for workspace, user, n in (("acme", "ann", 3), ("acme", "bob", 1), ("neighbour", "mallory", 4)):
        await enqueue(api, workspace, user, n)
    await deliver(api.store, account)
    await enqueue(api, "acme", "ann", 2)
    await enqueue(api, "neighbour", "mallory", 2)
    await throttle(api, "acme", "ann")
    await throttle(api, "acme", "bob", is_enforced=False)
    await throttle(api, "neighbour", "mallory")
    await api.store.hold("acme", "domain", "acme.example", reason="a complaint")
    await api.store.hold("neighbour", "workspace", "", reason="unpaid")
    async with signed_in(api, "acme", Role.VIEWER) as member, signed_in(api, None, Role.ADMIN) as admin:
        async with watching(admin, "/v1/live/fairness") as stream:
            seen = await stream.state()
        assert (seen["mode"]["fair_percent"], seen["served"]["emails"], seen["waiting"]["emails"]) == (100, 8, 4)
        assert {each["workspace"]: each["share"] for each in seen["waiting"]["top_workspaces"]} == {
            "acme": 0.5,
            "neighbour": 0.5,
        }
        assert {(each["name"], each["score"]) for each in seen["throttling"]["latest"]} == {
            ("ann", 77),
            ("bob", 77),
            ("mallory", 77),
        }
        assert {each["workspace"] for each in seen["holds"]} == {"acme", "neighbour"}
        assert seen["chart"].startswith("<svg")
        async with watching(member, "/v1/live/fairness") as stream:
            own = await stream.state()
        assert "neighbour" not in str(own)
        assert "mallory" not in str(own)
        assert (own["mode"], own["queue"], own["served"]["emails"]) == (None, None, 4)
        assert {each["name"]: each["emails"] for each in own["served_users"]} == {"ann": 3, "bob": 1}
        assert [(each["name"], each["score"], each["reasons"]) for each in own["throttling"]["latest"]] == [
            ("ann", 0, [brief(BURST)])
        ]
        assert [(each["level"], each["reason"]) for each in own["holds"]] == [("domain", "a complaint")]


async def test_a_name_that_is_held_is_seen_among_very_many_gates_and_throttles(api: Api) -> None:
    for n in range(25):
        await enqueue(api, "acme", f"user{n}", 2)
        await throttle(api, "acme", f"user{n}")
    await api.store.hold("acme", "user", "ann", reason="by hand")
    async with signed_in(api, None, Role.ADMIN) as admin, watching(admin, "/v1/live/fairness") as stream:
        assert [each["key"] for each in (await stream.state())["holds"]] == ["ann"]
