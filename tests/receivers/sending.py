"""A sending domain set up like its owner does, and mail of each kind sent from it through a real account."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta

import httpx2 as httpx

from fairpost.actions.acting import Actor, Done
from fairpost.actions.domains import AddKey, CheckDomain, add_key, check
from fairpost.engine.runner import Runner
from fairpost.model.account import Limits
from fairpost.model.auth import Person, Role
from fairpost.model.dkim import Algorithm
from fairpost.model.ids import AccountId, EmailId, PersonId
from fairpost.model.prospect import ProspectLine
from fairpost.model.transport import Security
from fairpost.policy.domain_health import Finding
from fairpost.store import workspaces
from fairpost.store.prospects import import_prospects
from fairpost.store.store import Store
from fairpost.system import clock
from fairpost.transports.factory import transport_of
from fairpost.transports.registry import write_transport
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.conftest import Api
from tests.peers.certificates import Certificates
from tests.peers.received import Received
from tests.peers.receiver import SENDING_IP, Receiver

DOMAIN, HELO = "example.org", "mail.example.org"
PUBLIC = "https://post.example.org"
ACTOR = Actor(who="test")
POOL = "acme/default"
TEXT = "Hello {{ first_name }},\n\nour shop has a new catalogue this spring. You find it in every branch.\n\nYour shop"
HTML = (
    "<!DOCTYPE html><html lang='en'><head><title>Spring</title></head><body><p>Hello {{ first_name }},</p>"
    "<p>our shop has a new catalogue this spring. You find it in every branch.</p><p>Your shop</p></body></html>"
)


@dataclass
class Shop:
    api: Api
    client: httpx.AsyncClient  # of its workspace
    url: str
    there: Receiver
    account: AccountId
    service: AccountId  # for the product's own mail

    @classmethod
    async def opened(
        cls, api: Api, client: httpx.AsyncClient, url: str, there: Receiver, certificates: Certificates
    ) -> "Shop":
        settings = SmtpSettings(
            host=there.host, port=there.port, security=Security.STARTTLS, ca_file=str(certificates.ca), hello_name=HELO
        )
        account, service = [
            await api.store.add_account(
                name,
                address=f"sales@{DOMAIN}",
                pool=pool,
                display_name="Acme Shop",
                limits=Limits(),
                transport=settings,
            )
            for name, pool in (("acme/sales", POOL), ("service", api.service.mail.pool))
        ]
        there.dns.put(DOMAIN, "TXT", f"v=spf1 ip4:{SENDING_IP} -all")
        there.dns.put(DOMAIN, "MX", f"10 {HELO}.")
        there.dns.put(f"_dmarc.{DOMAIN}", "TXT", "v=DMARC1; p=reject")
        there.dns.put(HELO, "TXT", f"v=spf1 ip4:{SENDING_IP} -all")
        there.dns.put_host(HELO, SENDING_IP)
        shop = cls(api, client, url, there, account, service)
        await shop.sign("acme")
        return shop

    async def sign(self, workspace: str, algorithm: Algorithm = Algorithm.RSA) -> tuple[Finding, ...]:
        """Publishes a key and checks its record: it replaces the previous one of its kind. Returns the other findings."""
        await workspaces.add_domain(self.api.store, workspace, DOMAIN)
        asked = AddKey(workspace=workspace, domain=DOMAIN, vault=self.api.service.vault, algorithm=algorithm)
        made = await add_key(ACTOR, asked, self.api.store)
        assert isinstance(made, Done)
        self.there.dns.put(made.value.key.record_name, "TXT", made.value.key.record_value)
        return await self.check(workspace)

    async def return_to(self, domain: str) -> None:
        """Gives the account a bounce address, whose domain allows the server."""
        self.there.dns.put(domain, "TXT", f"v=spf1 ip4:{SENDING_IP} -all")
        self.there.dns.put(domain, "MX", f"10 {HELO}.")
        account = await self.api.store.account(self.account)
        assert isinstance(account.transport, SmtpSettings)
        transport = write_transport(replace(account.transport, bounce_domain=domain))
        await self.api.store.change_account(account.name, {"transport": transport})

    async def check(self, workspace: str) -> tuple[Finding, ...]:
        asked = CheckDomain(workspace=workspace, domain=DOMAIN, resolver=self.there.dns.resolver)
        checked = await check(ACTOR, asked, self.api.store)
        assert isinstance(checked, Done)
        return checked.value.findings

    async def launch(self, *people: str) -> None:
        lines = [
            ProspectLine(
                line=n, address=each, fields={"first_name": each.partition("@")[0]}, timezone=None, external_id=None
            )
            for n, each in enumerate(people)
        ]
        async with self.api.store.connection() as conn:
            await import_prospects(conn, lines, workspace="acme", list_name="people", skip_bad=False)
        step = {"subject": "The spring catalogue, {{ first_name }}", "text": TEXT, "html": HTML}
        draft = {"lists": ["people"], "steps": [step], "account": "sales"}
        assert (await self.client.put("/v1/campaigns/spring", json=draft)).status_code == 201
        assert (await self.client.post("/v1/campaigns/spring/launch")).status_code == 200

    async def enqueue(self, to: str, **more: object) -> EmailId:
        email = {"workspace": "acme", "to": to, "from": f"sales@{DOMAIN}", "pool": POOL, **more}
        (row,) = await self.api.store.enqueue_many([email])
        assert row["error"] is None, row["error"]
        return EmailId(row["id"])

    async def send_code(self, to: str) -> None:
        """As the product's own portal does."""
        now = clock.now()
        person = Person(
            id=PersonId(1),
            workspace="acme",
            address=to,
            name="Ann Other",
            role=Role.VIEWER,
            has_password=True,
            created_at=now,
            disabled_at=None,
            last_sign_in_at=None,
        )
        expires_at = now + timedelta(minutes=10)
        mail = self.api.service.mail
        await mail.send_code(self.api.store, person, "839201", client="Firefox", now=now, expires_at=expires_at)

    async def send_all(self) -> None:
        async with Store.open(self.url) as store:
            await store.link_back(PUBLIC, "main")
            for account in (self.account, self.service):
                transport = transport_of(await store.account(account), self.api.service.vault)
                runner = await Runner.start(store, transport, account, owner="test")
                assert runner is not None
                await runner.run_until_idle()
                await runner.stop()
                await transport.close()

    async def arrived(self, addresses: Collection[str]) -> dict[str, Received]:
        def ours() -> dict[str, Received]:
            return {
                mail.recipients[0]: mail for mail in self.there.postfix.received() if mail.recipients[0] in addresses
            }

        async with asyncio.timeout(120):
            while len(found := ours()) < len(addresses):  # noqa: ASYNC110 - a maildir announces nothing
                await asyncio.sleep(0.02)
        return found
