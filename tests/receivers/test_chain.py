"""The complete path of a campaign: launched, signed, sent over TLS, checked by a receiver that verifies everything, and
unsubscribed from."""

import asyncio
import re
import smtplib
from email.message import EmailMessage
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from fairpost.model.dkim import Algorithm
from fairpost.policy.domain_health import Grade
from fairpost.store import suppressions
from tests.peers.received import Received
from tests.receivers.sending import DOMAIN, PUBLIC, Shop

PEOPLE = ("ann@example.com", "bob@example.com", "cleo@example.com")


def results(mail: Received) -> dict[str, str]:
    """Returns the receiver's findings: {"dkim": "pass", …}."""
    told = " ".join(mail.message.get_all("Authentication-Results", []))
    return dict(re.findall(r"\b(dkim|spf|dmarc)=(\w+)", told))


def all_results(mail: Received) -> list[str]:
    """With one for each signature, as the receiver's last look at it says."""
    told = mail.message.get_all("Authentication-Results", [])
    by_kind = {kind: next((each for each in told if f"{kind}=" in each), "") for kind in ("dkim", "dmarc", "spf")}
    return [found for kind, each in by_kind.items() for found in re.findall(rf"\b{kind}=\w+", each)]


def selectors(mail: Received) -> set[str]:
    return set(re.findall(r"\bs=(\w+);", " ".join(mail.message.get_all("DKIM-Signature", []))))


def symbols(mail: Received) -> dict[str, float]:
    """Returns the score of each rspamd rule that matched."""
    return {name: float(score) for name, score in re.findall(r"(\w+)\(([-\d.]+)\)", mail.message["X-Spamd-Result"])}


async def test_a_campaign_passes_every_check_and_is_unsubscribed_from_by_one_click(shop: Shop) -> None:
    await shop.launch(*PEOPLE)
    await shop.send_all()
    mails = await shop.arrived(PEOPLE)
    for mail in mails.values():
        assert results(mail) == {"dkim": "pass", "spf": "pass", "dmarc": "pass"}
        found = symbols(mail)
        assert {"R_DKIM_ALLOW", "R_SPF_ALLOW", "DMARC_POLICY_ALLOW", "HAS_LIST_UNSUB"} <= set(found)
        assert {name: score for name, score in found.items() if score > 0} == {}
        assert "with ESMTPS" in mail.message["Received"]

    head = mails["bob@example.com"].message
    assert head["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    address = head["List-Unsubscribe"].strip("<>")
    assert address.startswith(f"{PUBLIC}/")
    async with httpx.AsyncClient(base_url=shop.api.url) as receivers_own:
        field, _, value = head["List-Unsubscribe-Post"].partition("=")
        answer = await receivers_own.post(urlsplit(address).path, data={field: value})
    assert answer.status_code == 200
    kinds = {each: [k.kind for k in (await suppressions.known_of(shop.api.store, each))[0]] for each in PEOPLE}
    assert kinds == {"ann@example.com": [], "bob@example.com": ["unsubscribe"], "cleo@example.com": []}


async def test_two_signatures_and_a_bounce_address_pass_and_so_does_mail_in_transit_while_the_key_is_rotated(
    shop: Shop,
) -> None:
    await shop.sign("acme", Algorithm.ED25519)
    await shop.return_to(f"b.{DOMAIN}")
    await shop.launch("dora@example.com")
    await shop.send_all()
    mail = (await shop.arrived(["dora@example.com"]))["dora@example.com"]
    assert all_results(mail) == ["dkim=pass", "dkim=pass", "dmarc=pass", "spf=pass"]
    assert {name: score for name, score in symbols(mail).items() if score > 0} == {}
    link, mailto = mail.message["List-Unsubscribe"].split(", ")
    assert link.startswith(f"<{PUBLIC}/")
    assert mailto == f"<mailto:{mail.message['Return-Path'].strip('<>')}?subject=unsubscribe>"

    await shop.sign("acme")
    with smtplib.SMTP(shop.there.host, shop.there.port) as smtp:
        await asyncio.to_thread(smtp.sendmail, mail.sender, ["late@example.com"], mail.content.replace(b"\n", b"\r\n"))
    await shop.enqueue("next@example.com", subject="The spring catalogue", text="Hello")
    await shop.send_all()
    later = await shop.arrived(["late@example.com", "next@example.com"])
    assert all_results(later["late@example.com"])[:2] == all_results(later["next@example.com"])[:2] == ["dkim=pass"] * 2
    old, new = (selectors(each) for each in (mail, later["next@example.com"]))
    assert len(old & new) == 1, "Ed25519 stays"
    assert len(old | new) == 3


async def test_the_check_of_the_domain_foretells_it(shop: Shop) -> None:
    findings = {each.what: each for each in await shop.check("acme")}
    assert {what: each.grade for what, each in findings.items()} == dict.fromkeys(
        ("spf", "dkim", "dmarc", "mx"), Grade.GOOD
    )


async def test_the_receiver_refuses_to_believe_others(shop: Shop) -> None:
    """Shows that the checks above can fail."""
    forged = EmailMessage()
    forged["From"], forged["To"], forged["Subject"] = f"sales@{DOMAIN}", "eve@example.com", "The spring catalogue"
    forged.set_content("Hello")
    with smtplib.SMTP(shop.there.host, shop.there.other_port) as smtp, pytest.raises(smtplib.SMTPDataError) as refused:
        await asyncio.to_thread(smtp.send_message, forged)
    assert refused.value.smtp_code == 554
