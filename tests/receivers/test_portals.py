"""Every e-mail of the product's portals, as rated by rspamd and SpamAssassin."""

from pathlib import Path

import pytest

from fairpost.portals.loading import built_in_portals
from fairpost.portals.workspace import WorkspacePortals
from tests.peers.fetch import PeerMissing
from tests.peers.received import Received
from tests.peers.spamassassin import hits
from tests.receivers.sending import Shop
from tests.receivers.test_chain import results, symbols
from tests.receivers.test_filters import NEUTRAL

PORTALS = built_in_portals()


async def sent(shop: Shop) -> dict[str, Received]:
    """E-mails by address. The domain must not resemble an organisation in the samples, which would look like phishing."""
    portals = WorkspacePortals(shop.api.store, PORTALS)
    addresses = {f"{each.portal.key}.{each.type}@there.net": each for each in PORTALS.list()}
    for address, each in addresses.items():
        await portals.send("acme", each.portal.key, each.type, each.sample, to=address, pool="acme/default")
    await shop.send_all()
    return await shop.arrived(list(addresses))


async def test_no_rule_counts_against_an_email_of_a_portal(shop: Shop, tmp_path: Path) -> None:
    mails = await sent(shop)
    assert len(mails) == len(PORTALS.list())
    for address, mail in mails.items():
        assert results(mail) == {"dkim": "pass", "spf": "pass", "dmarc": "pass"}, address
        assert {name: score for name, score in symbols(mail).items() if score > 0} == {}, address
    try:
        found = hits([mail.content for mail in mails.values()], dns=shop.there.dns.address, folder=tmp_path)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    against = {
        address: {name for name, score in rules.items() if score > 0} - set(NEUTRAL)
        for address, rules in zip(mails, found, strict=True)
    }
    assert {address: rules for address, rules in against.items() if rules} == {}
