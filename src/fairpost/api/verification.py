"""Tries an account's server for whoever asks over HTTP: connects and signs in, sends nothing, and says what happened in words."""

import asyncio

from fairpost.api.service import Service
from fairpost.api.shapes.accounts import ReplyOut, StepTried, Verified
from fairpost.model.account import Account
from fairpost.model.errors import FairpostError, VaultError
from fairpost.model.transport import ServerSettings
from fairpost.transports.port import Tried
from fairpost.transports.registry import kind_of
from fairpost.transports.verify import try_account

VERIFYING_S_MAX = 45.0


async def verify(account: Account, service: Service) -> Verified:
    """Of an account that is not the operator's own only as far as the guard lets it."""
    guard = service.guard if account.workspace is not None else None
    try:
        async with asyncio.timeout(VERIFYING_S_MAX):
            return _told(await try_account(account, service.vault, guard=guard, is_brief=True))
    except TimeoutError:
        return _failed(f"Its server took longer than {VERIFYING_S_MAX:.0f} seconds. Try again later.")
    except VaultError:
        return _failed(
            "Its password cannot be opened, or there is none. Give it anew, or ask those who run the service."
        )
    except FairpostError as error:
        return _failed(error.message)


async def log_in(settings: ServerSettings, secret: str, address: str, service: Service) -> Verified:
    """The same with a login that is not stored yet."""
    try:
        async with asyncio.timeout(VERIFYING_S_MAX):
            tried = await kind_of(settings).verify(
                settings, secret, name=address, address=address, guard=service.guard, is_brief=True
            )
            return _told(tried)
    except TimeoutError:
        return _failed(f"Its server took longer than {VERIFYING_S_MAX:.0f} seconds. Try again later.")
    except FairpostError as error:
        return _failed(error.message)


def _told(tried: list[Tried]) -> Verified:
    steps = [_step(each) for each in tried]
    failed = next((each for each in steps if not each.ok), None)
    words = _in_words(failed) if failed else "It connected and signed in: it can send. Nothing was sent."
    return Verified(ok=failed is None, words=words, steps=steps)


def _step(each: Tried) -> StepTried:
    reply = ReplyOut(code=each.reply.code, text=each.reply.text) if each.reply else None
    return StepTried(step=each.name or each.step, ok=each.ok, text=each.text or None, reply=reply)


def _in_words(failed: StepTried) -> str:
    words = f"It failed at {failed.step}: {(failed.text or 'no more is known').rstrip('.')}."
    return f"{words} The server said: {failed.reply.code} {failed.reply.text}" if failed.reply else words


def _failed(words: str) -> Verified:
    return Verified(ok=False, words=words, steps=[])
