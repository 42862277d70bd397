"""Tests a Gmail API mailbox without sending anything. Gets a token, checks the mailbox and its addresses, then creates
and deletes a draft. If a step fails, its result says what an administrator can do.
"""

import re
from dataclasses import dataclass
from typing import assert_never

from fairpost.model.report import Step
from fairpost.transports.gmail.answers import Draft, Failure, NoAnswer, NoToken, Refusal, Withheld
from fairpost.transports.gmail.client import GmailClient, Timeouts
from fairpost.transports.gmail.send import what_to_type
from fairpost.transports.gmail.settings import GOOGLE, GmailSettings
from fairpost.transports.port import Tried

PATIENCE = Timeouts(connect_s=10, read_s=20, total_s=40)  # short, because a user is waiting
SCOPE = "https://mail.google.com/"

_LIMITS = ("ratelimitexceeded", "userratelimitexceeded", "dailylimitexceeded", "quotaexceeded", "resource_exhausted")


@dataclass(frozen=True, slots=True)
class _Account:
    name: str
    address: str
    settings: GmailSettings

    @property
    def mailbox(self) -> str:
        return self.settings.oauth.subject or self.address

    @property
    def where(self) -> str:
        return self.settings.base_url or GOOGLE


async def try_gmail(client: GmailClient, settings: GmailSettings, *, name: str, address: str) -> list[Tried]:
    """Returns every step taken, in order. If a step failed, it is the last one. `name` and `address` belong to the
    account.
    """
    account = _Account(name, address, settings)
    none = await client.authorize()
    if none is not None:
        return [_failed("token", Step.AUTH, none, account)]
    tried = [Tried(step=Step.AUTH, name="token", ok=True)]
    mailbox = await client.profile()
    if not isinstance(mailbox, str):
        return [*tried, _failed("mailbox", Step.HELLO, mailbox, account)]
    tried.append(Tried(step=Step.HELLO, name="mailbox", ok=True, text=mailbox))
    tried.append(await _try_sender(client, account, mailbox))
    return [*tried, await _try_draft(client, account, mailbox)] if tried[-1].ok else tried


async def _try_sender(client: GmailClient, account: _Account, mailbox: str) -> Tried:
    """Checks the From address, which Gmail replaces with the mailbox's own if it does not belong to the mailbox."""
    if account.address.lower() == mailbox.lower():
        return Tried(step=Step.MAIL, name="sender", ok=True, text=account.address)
    aliases = await client.aliases()
    if not isinstance(aliases, tuple):
        text = f"could not check whether {account.address} belongs to {mailbox}"
        return Tried(step=Step.MAIL, name="sender", ok=True, text=text)
    if account.address.lower() in [alias.lower() for alias in aliases]:
        return Tried(step=Step.MAIL, name="sender", ok=True, text=f"{account.address}, an alias of {mailbox}")
    advice = (
        f"Send from the mailbox's own address: fairpost account set {account.name} --from {mailbox}; or act for the other "
        f"mailbox: fairpost account set {account.name} --subject {account.address}; or give {mailbox} that address as an "
        f"alias (Gmail → Settings → Accounts → Send mail as)."
    )
    text = f"{account.address} does not belong to {mailbox}, so Gmail would replace it with {mailbox}"
    return Tried(step=Step.MAIL, name="sender", ok=False, text=text, advice=advice)


async def _try_draft(client: GmailClient, account: _Account, mailbox: str) -> Tried:
    raw = f"From: {mailbox}\r\nTo: {mailbox}\r\nSubject: Fairpost account test\r\n\r\nNothing is sent.\r\n"
    made = await client.create_draft(raw.encode())
    if not isinstance(made, Draft):
        return _failed("draft", Step.DATA, made, account)
    left = await client.delete_draft(made.id)
    return _failed("draft", Step.DATA, left, account) if left else Tried(step=Step.DATA, name="draft", ok=True)


def _failed(name: str, step: Step, failure: Failure, account: _Account) -> Tried:
    match failure:
        case NoToken():
            advice = what_to_type(failure.advice, account.name)
            return Tried(step=step, name=name, ok=False, text=failure.message, advice=advice)
        case NoAnswer():
            whom = "the token server" if step is Step.AUTH else account.where
            later = f"or try again later: fairpost account verify {account.name}"
            advice = f"Check that this machine can reach {whom}, {later}"
            return Tried(step=step, name=name, ok=False, text=failure.error, advice=advice)
        case Refusal():
            text = "Google rejected it" if failure.is_googles else "rejected, but not by Google"
            return Tried(
                step=step, name=name, ok=False, text=text, reply=failure.reply, advice=_advice(failure, account)
            )
        case Withheld():
            raise AssertionError("no permission was needed")
        case _:
            assert_never(failure)


def _advice(refusal: Refusal, account: _Account) -> str:
    again = f"then: fairpost account verify {account.name}"
    mailbox = account.mailbox
    match refusal.reason.lower():
        case "accessnotconfigured" | "service_disabled":
            project = re.search(r"project[ =/]+([\w:.-]+)", refusal.message)
            which = f"?project={project[1]}" if project else ""
            return (
                "Enable the Gmail API in the project that the key belongs to: "
                f"https://console.cloud.google.com/apis/library/gmail.googleapis.com{which}; wait a few minutes, {again}"
            )
        case "failedprecondition" | "failed_precondition":
            return (
                f"The mailbox {mailbox} does not have Gmail. Give the user a licence with Gmail and enable the service (Admin "
                f"console → Apps → Google Workspace → Gmail), {again}; or act for another mailbox: "
                f"fairpost account set {account.name} --subject MAILBOX"
            )
        case "insufficientpermissions" | "access_token_scope_insufficient" | "permission_denied":
            return (
                f"The token does not cover the scope {SCOPE}. For a service account, add that scope in the Admin console "
                f"(Security → Access and data control → API controls → Domain-wide delegation); for a person, ask them to "
                f"allow it again; {again}"
            )
        case "delegationdenied":
            return f"The key may not act for {mailbox}. Set its mailbox: fairpost account set {account.name} --subject MAILBOX"
        case "domainpolicy":
            return (
                "The organisation does not allow apps to use Gmail. Allow it in the Admin console (Security → Access and data "
                f"control → API controls), {again}"
            )
        case "autherror" | "unauthenticated" | "required":
            return (
                "Google granted the token but then rejected it: it was revoked, or this machine's clock is "
                f"wrong. Check both, {again}"
            )
        case reason if reason in _LIMITS or refusal.status == 429:
            when = f" after {refusal.retry_at:%Y-%m-%d %H:%M} UTC" if refusal.retry_at else " later"
            return f"The account works, but has reached one of Google's limits. Try again{when}: fairpost account verify {account.name}"
        case _ if refusal.status >= 500:
            return f"Google has a problem. Try again later: fairpost account verify {account.name}"
        case _ if not refusal.is_googles:
            return f"Check that {account.where} is the Gmail API and not a proxy; {again}"
        case _:
            return f"Look up Google's error: https://developers.google.com/gmail/api/guides/handle-errors; {again}"
