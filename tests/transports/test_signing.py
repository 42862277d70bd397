"""Which key signs which e-mail, and that the signature is valid after transfer over a socket."""

from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.dkim import Algorithm, SealedKey
from fairpost.model.email import Bulk, Mailbox, Recipient
from fairpost.model.ids import AccountId
from fairpost.model.report import Reached
from fairpost.model.transport import Security
from fairpost.transports.factory import transport_of
from fairpost.transports.signing import keys_of
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.transports.smtp.settings import SmtpSettings
from fairpost.vault.dkim import new_private_key, public_text, write_private_key
from fairpost.vault.keyring import Keyring
from fairpost.vault.keys import new_key
from fairpost.vault.vault import Vault
from tests.compose.strategies import content_of, email_of
from tests.peers.dkim import by_dkimpy
from tests.smtp.scripted_server import Script, scripted

KEY = new_key()
VAULT = Vault(Keyring(Path("/nonexistent"), given=KEY))
PRIVATE = new_private_key(Algorithm.ED25519)
DNS = {"s1._domainkey.shop.example": f"v=DKIM1; k=ed25519; p={public_text(PRIVATE)}"}
TOKEN = "em_d6kshwcgane53-0123456789"
ANN = (Recipient(kind="to", address="ann@example.com"),)


def key(domain: str = "shop.example", id_: int = 1, selector: str = "s1") -> SealedKey:
    sealed = VAULT.seal_for(f"dkim {id_}", write_private_key(PRIVATE), key=KEY)
    return SealedKey(id=id_, domain=domain, selector=selector, algorithm=Algorithm.ED25519, sealed=sealed)


def account(host: str, port: int = 25, **settings: Any) -> Account:
    return Account(
        id=AccountId(7),
        name="shop",
        address="shop@shop.example",
        display_name=None,
        pool="default",
        status=AccountStatus.ACTIVE,
        status_reason=None,
        limits=Limits(),
        usage=Usage(),
        transport=SmtpSettings(host=host, port=port, security=Security.NONE, **settings),
    )


async def sent(
    email_key: SealedKey,
    sender: str | None = None,
    text: str = ".\n..\n\n a  \n\n",
    bulk: Bulk | None = None,
    **settings: Any,
) -> tuple[Reached, bytes]:
    script = Script()
    async with scripted(script) as port:
        shop = account("127.0.0.1", port, **settings)
        transport = transport_of(shop, VAULT)
        mailbox = Mailbox(address=sender) if sender else None
        email = replace(
            email_of(content_of(text=text), ANN), signing=(email_key,), sender=mailbox, bulk=bulk, return_token=TOKEN
        )
        report = await transport.send(shop, email, permission=lambda: True)
        await transport.close()
    return report.reached, script.taken[0] if script.taken else b""


async def test_delivered_messages_verify() -> None:
    for sender in (None, "a@shop.example", "a@news.SHOP.example"):
        reached, data = await sent(key(), sender)
        assert reached is Reached.REPLIED
        assert by_dkimpy([data], DNS) == [1], sender


async def test_campaign_mail_can_be_unsubscribed_from_by_mail_where_it_is_read() -> None:
    link = "https://post.example/u/1"
    cases: dict[str, tuple[dict[str, Any], str | None]] = {
        "nothing is read": ({}, None),
        "the bounce address": (
            {"bounce_domain": "b.shop.example", "read": True},
            f"mailto:bounces+{TOKEN}@b.shop.example?subject=unsubscribe",
        ),
        "the mailbox": ({"read": True}, f"mailto:shop@shop.example?subject=unsubscribe%20{TOKEN}"),
    }
    for name, (settings, mailto) in cases.items():
        for url in (link, None):
            _, data = await sent(key(), bulk=Bulk(campaign="spring", unsubscribe_url=url), **settings)
            head = message_from_bytes(data, policy=default)
            ways = [f"<{each}>" for each in (url, mailto) if each]
            assert head["List-Unsubscribe"] == (", ".join(ways) or None), name
            assert (head["List-Unsubscribe-Post"] is not None) is (url is not None), "it needs the link"
            assert by_dkimpy([data], DNS) == [1]
            assert by_dkimpy([data.replace(b"List-Unsubscribe:", b"list-unsubscribe: <x>,", 1)], DNS) == [
                0 if ways else 1
            ]


async def test_mail_from_elsewhere_is_not_signed() -> None:
    for sender in ("a@notshop.example", "a@example", "a@shop.example.evil.test"):
        assert b"DKIM-Signature" not in (await sent(key(), sender))[1]


async def test_a_key_that_does_not_open_keeps_its_mail_and_sends_nothing_unsigned() -> None:
    strange = replace(key(), id=2)
    reached, data = await sent(strange)
    assert (reached, data) == (Reached.UNTOUCHED, b"")


async def test_only_accounts_whose_provider_does_not_sign_are_given_a_signer() -> None:
    signs = {
        "smtp.gmail.com": False,
        "smtp.office365.com": False,
        "mail.shop.example": True,
        "gmail.com.evil.test": True,
    }
    for host, is_ours in signs.items():
        transport = transport_of(account(host), VAULT)
        assert isinstance(transport, SmtpTransport)
        assert (transport.signer is not None) is is_ours, host


def test_the_nearest_domain_signs() -> None:
    upper, lower = key("shop.example", 1), key("news.shop.example", 2)
    assert keys_of("a@x.news.shop.example", (upper, lower)) == (lower,)
    assert keys_of("a@shop.example", (upper, lower)) == (upper,)
    assert keys_of("a@other.example", (upper, lower)) == ()
    wide = key("xn--bcher-kva.example", 3)
    assert keys_of("a@bücher.example", (wide,)) == (wide,)
