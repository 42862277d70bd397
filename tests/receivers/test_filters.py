"""Mail of each kind as rated by rspamd and SpamAssassin: no rule about composition scores against it."""

from pathlib import Path

import pytest

from tests.peers.fetch import PeerMissing
from tests.peers.received import Received
from tests.peers.spamassassin import hits
from tests.receivers.sending import HTML, Shop
from tests.receivers.test_chain import results, symbols

TEXT = "Hello Ann,\n\nwe have sent your order today. It arrives tomorrow.\n\nYour shop"
KINDS = ("campaign", "order", "plain", "code", "reply")

# Rules with a positive score in SpamAssassin that do not count against a message.
NEUTRAL = {
    "DKIM_SIGNED": "0.1 for a signature; DKIM_VALID takes it back once it holds",
    "HTML_MESSAGE": "0.001 for html at all",
}


@pytest.fixture
async def mails(shop: Shop) -> dict[str, Received]:
    await shop.launch("campaign@example.com")
    order = await shop.enqueue(
        "order@example.com", subject="Your order 4711", text=TEXT, html=HTML.replace("{{ first_name }}", "Ann")
    )
    await shop.enqueue("plain@example.com", subject="Your order 4711", text=TEXT)
    await shop.send_code("code@example.com")
    await shop.send_all()
    await shop.enqueue("reply@example.com", subject="Re: Your order 4711", text=TEXT, follows=order)
    await shop.send_all()
    found = await shop.arrived([f"{kind}@example.com" for kind in KINDS])
    return {kind: found[f"{kind}@example.com"] for kind in KINDS}


async def test_no_rule_of_rspamd_counts_against_it(mails: dict[str, Received]) -> None:
    for kind, mail in mails.items():
        assert results(mail) == {"dkim": "pass", "spf": "pass", "dmarc": "pass"}, kind
        assert {name: score for name, score in symbols(mail).items() if score > 0} == {}, kind


async def test_no_rule_of_spamassassin_counts_against_it(
    mails: dict[str, Received], shop: Shop, tmp_path: Path
) -> None:
    try:
        found = hits([mail.content for mail in mails.values()], dns=shop.there.dns.address, folder=tmp_path)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    for kind, rules in zip(KINDS, found, strict=True):
        assert {"DKIM_VALID", "DKIM_VALID_AU", "SPF_PASS", "SPF_HELO_PASS"} <= set(rules), kind
        assert {name for name, score in rules.items() if score > 0} <= set(NEUTRAL), kind
