"""Verifies an account's server for HTTP callers.

Connects and signs in without sending anything, and describes the result.
"""

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
    """Verifies a stored account. Accounts that belong to workspaces connect only to servers that the guard allows."""
    guard = service.guard if account.workspace is not None else None
    try:
        async with asyncio.timeout(VERIFYING_S_MAX):
            tried = await try_account(account, service.vault, guard=guard, host=service.host, is_brief=True)
            return _told(tried)
    except TimeoutError:
        return _failed(f"The server did not respond within {VERIFYING_S_MAX:.0f} seconds. Try again later.")
    except VaultError:
        return _failed("The password is missing or cannot be read. Set the password again, or ask an admin.")
    except FairpostError as error:
        return _failed(error.message)


async def log_in(settings: ServerSettings, secret: str, address: str, service: Service) -> Verified:
    """Verifies an account with a login that is not stored yet."""
    try:
        async with asyncio.timeout(VERIFYING_S_MAX):
            kind = kind_of(settings)
            settings = kind.announced(settings, service.host)
            tried = await kind.verify(
                settings, secret, name=address, address=address, guard=service.guard, is_brief=True
            )
            return _told(tried)
    except TimeoutError:
        return _failed(f"The server did not respond within {VERIFYING_S_MAX:.0f} seconds. Try again later.")
    except FairpostError as error:
        return _failed(error.message)


def _told(tried: list[Tried]) -> Verified:
    steps = [_step(each) for each in tried]
    failed = next((each for each in steps if not each.ok), None)
    words = _in_words(failed) if failed else "The account can connect, sign in and send. Nothing was sent."
    return Verified(ok=failed is None, words=words, steps=steps)


def _step(each: Tried) -> StepTried:
    reply = ReplyOut(code=each.reply.code, text=each.reply.text) if each.reply else None
    return StepTried(step=each.name or each.step, ok=each.ok, text=each.text or None, reply=reply)


def _in_words(failed: StepTried) -> str:
    words = f"The test failed at {failed.step}: {(failed.text or 'no details are available').rstrip('.')}."
    return f"{words} The server replied: {failed.reply.code} {failed.reply.text}" if failed.reply else words


def _failed(words: str) -> Verified:
    return Verified(ok=False, words=words, steps=[])
