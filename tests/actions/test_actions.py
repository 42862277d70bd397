"""Every action as a command and as a request: the same effect, the same refusal, and one audit entry that names the
actor."""

import importlib
import pkgutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from fairpost import actions
from fairpost.actions.acting import ACTIONS
from fairpost.model.account import Limits
from fairpost.model.prospect import ProspectLine
from fairpost.model.reason import Reason
from fairpost.model.webhook import Answered
from fairpost.providers.domain_proof import Found, Proof, proof_record
from fairpost.reasons.catalogue import CATALOGUE
from fairpost.reasons.rendering import command, sentence
from fairpost.settings import Settings
from fairpost.store.prospects import import_prospects
from fairpost.store.templates import put_template
from tests.actions.walks import ONE_FRONT_END, WALKS, Walk, World
from tests.api.conftest import Api
from tests.api.signed_in import signed_in

importlib.import_module("fairpost.dev.inbox.deleting")
for module in pkgutil.iter_modules(actions.__path__):
    importlib.import_module(f"fairpost.actions.{module.name}")


@pytest.fixture
async def world(api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr("fairpost.actions.domains.find_proof", _proven)
    monkeypatch.setattr("fairpost.actions.webhooks.Endpoint.post", _answered)
    async with AsyncExitStack() as opened:
        for workspace in ("left", "right"):
            await api.workspace(workspace, domains=(f"{workspace}.example",))
            await api.store.add_account(
                f"{workspace}/relay", address=f"relay@{workspace}.example", pool=f"{workspace}/own", limits=Limits()
            )
            await put_template(api.store, workspace, "hello", subject="Hello", text="Hi", html=None)
            line = ProspectLine(line=1, address="p0@there.test", fields={}, timezone=None, external_id=None)
            async with api.store.connection() as conn:
                await import_prospects(conn, [line], workspace=workspace, list_name="people", skip_bad=False)
        key = await opened.enter_async_context(api.client("right"))
        admin = await opened.enter_async_context(signed_in(api))
        who = f"key {key.headers['Authorization'].split('_')[2]}"
        assert settings.database_url is not None
        environment = {"FAIRPOST_DATABASE_URL": settings.database_url, "FAIRPOST_HOME": str(settings.home)}
        yield World(api, environment, key, admin, who)


async def _proven(domain: str, token: str, *, resolver: object) -> Proof:
    """Answers without a DNS query."""
    return Proof(found=Found.PROVEN, domain=domain, record=proof_record(domain, token))


async def _answered(*_: object) -> Answered:
    """Accepts the request without posting anything."""
    return Answered(status=200)


def test_every_action_is_walked() -> None:
    assert sorted(ACTIONS) == sorted({*WALKS, *ONE_FRONT_END})


async def test_a_command_and_a_request_do_the_same_and_leave_one_entry_each(world: World) -> None:
    wrong = []
    for name, walk in WALKS.items():
        wrong += [f"{name}: {each}" for each in await _walked(world, name, walk)]
    assert wrong == []


async def _walked(world: World, name: str, walk: Walk) -> list[str]:
    wrong = []
    entry = walk.entry or name
    subjects = [await walk.prepare(world, workspace) for workspace in ("left", "right")]
    scopes = subjects if walk.is_of_subject else [None, None] if walk.is_of_installation else ["left", "right"]
    before = await world.audit(scopes[0])
    code, printed = await world.cli(*walk.cli("left", subjects[0]))
    if code != 0:
        wrong.append(f"the command failed: {printed}")
    entries = (await world.audit(scopes[0]))[len(before) :]
    if [action for _, action in entries] != [entry] or not entries[0][0].startswith("cli "):
        wrong.append(f"by the command: {entries}")
    if walk.is_of_installation:
        await walk.prepare(world, "right")  # create what is acted on
    before = await world.audit(scopes[1])
    subject = await world.public(subjects[1]) if name.startswith("email.") else subjects[1]
    answer = await world.http(walk.http("right", subject), by_admin=walk.by_admin)
    if not answer.is_success:
        wrong.append(f"the request failed: {answer.text}")
    entries = (await world.audit(scopes[1]))[len(before) :]
    if entries != [("admin admin@example.com" if walk.by_admin else world.key_name, entry)]:
        wrong.append(f"by the request: {entries}")
    if walk.unknown is not None:
        wrong += await _refused(world, walk, *walk.unknown)
    return wrong


async def _refused(world: World, walk: Walk, subject: str, expected: str) -> list[str]:
    """Both are refused with the same code, and without an audit entry."""
    before = await world.audit("left"), await world.audit("right")
    answer = await world.http(walk.http("right", subject), by_admin=walk.by_admin)
    details = answer.json()["error"]["details"]
    code, printed = await world.cli(*walk.cli("left", subject))
    printed = printed.replace("left/", "")  # the command line prints full account names
    found_code, same = _in_words(details)
    found = []
    if found_code != expected or code != 1 or same.replace("right", "left") not in printed:
        found.append(f"refused with {found_code} by the request, and by the command: {printed}")
    if (await world.audit("left"), await world.audit("right")) != before:
        found.append("a refusal is in the audit")
    return found


def _in_words(details: Any) -> tuple[str, str]:
    """Returns the code of a refusal, and its sentence. For a field, the code includes the field."""
    if isinstance(details, list):
        return details[0]["reason"], details[0]["message"]
    reason = Reason(details["reason"], **{name: value for name, value in details.items() if name != "reason"})
    return reason.code, sentence(reason)


def test_every_sentence_can_be_made_from_its_parameters() -> None:
    """A catalogue sentence with a parameter that its refusals do not have would fail when it is needed."""
    for code, meaning in CATALOGUE.items():
        names = {
            part.split("}")[0]
            for text in (meaning.sentence, meaning.command, meaning.field)
            for part in text.split("{")[1:]
        }
        reason = Reason(code, **dict.fromkeys(names, "x y"))
        assert "{" not in sentence(reason), code
        assert meaning.command == "" or (command(reason) or "").startswith("fairpost "), code
