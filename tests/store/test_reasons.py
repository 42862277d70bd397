"""Reasons as stored in the database, and sentences from before there were codes."""

import json
from datetime import UTC, datetime

import pytest

from fairpost.model.account import Limits
from fairpost.model.errors import RegionUnavailable
from fairpost.model.reason import Reason, write_params
from fairpost.reasons.catalogue import CATALOGUE
from fairpost.reasons.rendering import brief, error_in_words
from fairpost.store.reasons import stored_forms, stored_reason, stored_reasons
from fairpost.store.store import Store


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("account_suspended", Reason("email.account_suspended")),
        ("there is no account acme/sales any more", Reason("email.account_removed", account="acme/sales")),
        ("expired at 2030-01-01T00:00:00Z", Reason("email.expired", expired_at=datetime(2030, 1, 1, tzinfo=UTC))),
        ("the campaign was cancelled", Reason("email.campaign_cancelled")),
        ("outcome unknown, given up by operator", Reason("email.resolved_as_failed", by="operator")),
        ("550 5.1.1 no such user", Reason("legacy.text", text="550 5.1.1 no such user")),
    ],
)
def test_a_sentence_from_before_is_read_as_its_code(sentence: str, reason: Reason) -> None:
    assert stored_reason(sentence, None) == reason
    assert reason.code in CATALOGUE
    assert "{" not in brief(reason)


def test_failed_emails_are_found_by_the_code_and_the_old_name_of_their_reason() -> None:
    assert set(stored_forms("account_suspended")) == {"account_suspended", "email.account_suspended"}
    assert set(stored_forms("email.account_suspended")) == {"account_suspended", "email.account_suspended"}


async def test_a_code_and_its_parameters_come_back_from_one_text(store: Store) -> None:
    reason = Reason("email.mailbox_full", code=552, reply='5.2.2 {"full"} “ü”')
    said = await store.value("SELECT fairpost.in_one($1, $2)", reason.code, write_params(reason))
    row = await store.row("SELECT fairpost.code_in($1) AS code, fairpost.params_in($1) AS params", said)
    assert stored_reason(row["code"], row["params"]) == reason
    assert stored_reasons([said, "two many"]) == (reason, Reason("legacy.text", text="two many"))


@pytest.mark.parametrize("reply", ['{"code": 403, "params": 1}', "451 try later", '{"code": "x", "params": {'])
async def test_a_reply_that_looks_like_json_stays_what_it_is(store: Store, reply: str) -> None:
    row = await store.row("SELECT fairpost.code_in($1) AS code, fairpost.params_in($1) AS params", reply)
    assert tuple(row) == (reply, None)


async def test_long_replies_are_cut_and_numbers_are_not(store: Store) -> None:
    kept = json.loads(await store.value("SELECT fairpost.shortened($1)", json.dumps({"reply": "x" * 5000, "n": 7})))
    assert kept == {"reply": "x" * 1000, "n": 7}


async def test_long_texts_are_cut_however_deep_they_are(store: Store) -> None:
    long, short = "x" * 5000, "x" * 1000
    given: dict[str, object] = {
        "mistakes": [{"line": 1, "message": long}, {}, [], None],
        "why": {"code": "a.b", "reply": long},
    }
    kept = json.loads(await store.value("SELECT fairpost.shortened($1)", json.dumps(given)))
    assert kept == {"mistakes": [{"line": 1, "message": short}, {}, [], None], "why": {"code": "a.b", "reply": short}}


async def test_a_persons_text_is_shortened_like_a_reply(store: Store) -> None:
    await store.add_account("news", address="news@acme.example", pool="default", limits=Limits())
    note = Reason("account.paused_by_hand", note="x" * 1_000_000)
    await store.change_account("news", {"status": "paused", "status_reason": note})
    await store.hold("acme", "user", "ann", reason="x" * 1_000_000)
    kept = await store.fetch(
        "SELECT status_params AS params FROM fairpost.accounts UNION ALL SELECT detail -> 'params' FROM fairpost.events"
    )
    assert [json.loads(row["params"]) for row in kept] == [{"note": "x" * 1000}] * 3


def test_an_error_names_its_next_step_only_on_the_command_line() -> None:
    error = RegionUnavailable("eu", "connection refused")
    assert "fairpost" not in str(error)
    assert error_in_words(error).startswith(str(error))
    assert error_in_words(error).endswith("fairpost region list")
    assert all(meaning.command for code, meaning in CATALOGUE.items() if code.startswith("step."))
