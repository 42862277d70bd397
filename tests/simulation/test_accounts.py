"""Accounts of many providers: for days against a script, and for an hour over real sockets against the emulators."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairpost.dev.emulate.server import GmailEmulator
from fairpost.dev.inbox.server import InboxServer, ServerOptions
from fairpost.dev.simulate.accounts import simulate_accounts
from fairpost.dev.simulate.audit import violations
from fairpost.dev.simulate.drive import Drive
from fairpost.model.account import DailyMode, Limits
from fairpost.model.ids import AccountId
from fairpost.providers.presets import read_presets
from fairpost.smtp.server import Security, Server
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.factory import transport_of
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.secrets import RefreshSecret, write_refresh_secret
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.port import ClosableTransport
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.simulation.world import SHARE, shared
from tests.thorough import IS_FREE

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
PRESETS = read_presets()
SMTP, GMAIL = (shared(PRESETS[name].limits) for name in ("gmail", "workspace"))


@pytest.mark.thorough
async def test_accounts_of_all_providers_keep_their_limits_and_everything_is_accounted_for(store: Store) -> None:
    emails = 300 if not IS_FREE else 900
    outcome = await simulate_accounts(store, accounts=12, days=1.5, emails=emails, seed=7, progress=lambda _: None)
    assert outcome.broken_limits == ()
    assert outcome.duplicates == 0
    assert outcome.states.total() == emails
    assert set(outcome.states) <= {"sent", "bounced", "failed"}, "in this time, all of it could be sent"
    assert outcome.states["sent"] > 0.88 * emails


def test_the_auditor_sees_what_is_wrong() -> None:
    start = datetime(2030, 1, 1, 12, tzinfo=UTC)
    sent = [start + timedelta(seconds=s) for s in (0, 1, 2, 3600, 86_399)]
    assert violations(Limits(hourly_max=3, daily_max=5, delay_ms=1000), sent) == []
    assert len(violations(Limits(hourly_max=2), sent)) == 1
    assert len(violations(Limits(delay_ms=1001), sent)) == 2
    assert len(violations(Limits(daily_max=4), sent)) == 1
    assert len(violations(Limits(daily_max=4, daily_mode=DailyMode.SLIDING), sent)) == 1
    assert violations(Limits(daily_max=4, daily_mode=DailyMode.CALENDAR), sent) == []
    assert len(violations(Limits(daily_max=3, daily_mode=DailyMode.CALENDAR), sent)) == 1
    assert len(violations(Limits(units_per_minute=200, units_per_send=100), sent)) == 1


@pytest.mark.thorough
async def test_an_hour_over_sockets_against_the_emulators(store: Store) -> None:
    """Google's own quotas also apply, and nothing is ever sent too fast for them."""
    people = [f"g{n}@post.test" for n in range(4)]
    inbox = InboxServer(store, ServerOptions(port=0))
    await inbox.start()
    with clock.stopped_at(datetime.now(UTC)) as manual:
        start = manual.now
        refused: list[int | None] = []
        async with GmailEmulator(
            users=people, on_request=lambda served: refused.append(served.status) if served.status != 200 else None
        ) as google:
            transports: dict[AccountId, ClosableTransport] = {}
            for person in people:
                transports |= await _gmail(store, google, person)
            for n in range(4):
                id_ = await store.add_account(f"s{n}", address=f"s{n}@post.test", pool="smtp", limits=SMTP)
                server = Server(host="127.0.0.1", port=inbox.port, security=Security.NONE)
                transports[id_] = SmtpTransport(server)
            emails = [{"to": f"p{n}@there.test", "subject": f"n{n}", "text": "t"} for n in range(700 // SHARE)]
            by_api = 300 // SHARE
            await store.enqueue_many([{**e, "pool": "gmail" if n < by_api else "smtp"} for n, e in enumerate(emails)])
            await Drive(store, manual, transports).run(until=start + timedelta(hours=1) - timedelta(seconds=1))
            for transport in transports.values():
                await transport.close()
            sent = google.sent()
        await inbox.stop()
    assert refused == [], "the emulator's quotas were never reached"
    assert Counter(dict(m.headers)["Subject"] for m in sent) == Counter({f"n{n}": 1 for n in range(by_api)})
    for person in people:
        assert violations(GMAIL, [m.at for m in sent if m.user == person]) == []
    arrived = await store.value("SELECT count(*) FROM fairpost.inbox")
    assert arrived == 400 // SHARE, "what the four may send in an hour"
    assert await store.value("SELECT count(*) FROM fairpost.emails WHERE state = 'sent'") == 700 // SHARE


async def _gmail(store: Store, google: GmailEmulator, person: str) -> dict[AccountId, ClosableTransport]:
    grant = google.refresh_token(person)
    settings = GmailSettings(
        oauth=OauthSettings(kind=OauthKind.GOOGLE_PERSON, client_id=grant["client_id"], token_uri=grant["token_uri"]),
        base_url=google.url,
    )
    id_ = await store.next_account_id()
    secret = write_refresh_secret(
        RefreshSecret(refresh_token=grant["refresh_token"], client_secret=grant["client_secret"])
    )
    sealed = VAULT.seal(secret, account_id=id_, key=KEY)
    await store.add_account(
        f"a{id_}",
        address=person,
        pool="gmail",
        limits=GMAIL,
        transport=replace(settings, secret=sealed),
        id_=id_,
    )
    return {id_: transport_of(await store.account(id_), VAULT)}
