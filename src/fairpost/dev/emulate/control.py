"""The paths below /emulator. These paths show the sent messages and control the emulator over HTTP. The real API has no
such paths.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fairpost.dev.emulate import mime
from fairpost.dev.emulate.answers import Answer, Refusal, answer, rfc3339_ms
from fairpost.dev.emulate.bodies import Call, read_message
from fairpost.dev.emulate.faults import Fault, Faults, parse_all
from fairpost.dev.emulate.mailbox import Draft, Mailboxes, Sent, User
from fairpost.dev.emulate.quota import Quota
from fairpost.dev.emulate.tokens import Tokens

USERS_MAX = 10_000
USER_FIELDS = {"address": str, "name": str, "aliases": list, "delegated": bool, "mail_enabled": bool, "disabled": bool}


class Control:
    def __init__(
        self, mailboxes: Mailboxes, tokens: Tokens, quota: Quota, faults: Faults, now: Callable[[], datetime]
    ) -> None:
        self._mailboxes = mailboxes
        self._tokens = tokens
        self._quota = quota
        self._faults = faults
        self._now = now

    def overview(self, call: Call) -> Answer:
        return answer(
            {
                "now": rfc3339_ms(self._now()),
                "users": [user.address for user in self._mailboxes.users()],
                "serviceAccounts": list(self._tokens.accounts),
                "sent": len(self._mailboxes.sent),
                "faults": len(self._faults.listed()),
            }
        )

    def sent(self, call: Call) -> Answer:
        user = call.first("user").lower()
        sent = [sent for sent in self._mailboxes.sent if user in ("", sent.user.lower())]
        return answer({"messages": [_sent(one) for one in sent]})

    def drafts(self, call: Call) -> Answer:
        wanted = call.first("user").lower()
        users = [user.address for user in self._mailboxes.users() if wanted in ("", user.address.lower())]
        drafts = [_draft(user, draft) for user in users for draft in self._mailboxes.box(user).drafts.values()]
        return answer({"drafts": drafts})

    def users(self, call: Call) -> Answer:
        return answer({"users": [asdict(user) for user in self._mailboxes.users()]})

    def change_user(self, call: Call) -> Answer:
        """Updates the given fields of an existing user, or creates a new one."""
        given = _given(call)
        if not isinstance(given, dict) or not isinstance(given.get("address"), str) or "@" not in given["address"]:
            raise _refused("a user must be an object with an address")
        for name, value in given.items():
            if name not in USER_FIELDS or not isinstance(value, USER_FIELDS[name]):
                raise _refused(f"{name} is unknown or has the wrong type; a user has {', '.join(USER_FIELDS)}")
        if not all(isinstance(alias, str) for alias in given.get("aliases", [])):
            raise _refused("aliases must be a list of addresses")
        old = self._mailboxes.user(given["address"])
        if old is None and len(self._mailboxes.users()) >= USERS_MAX:
            raise _refused(f"there are already {USERS_MAX} users")
        merged = {**(asdict(old) if old else {}), **given}
        user = User(**{**merged, "aliases": tuple(merged.get("aliases", ()))})
        self._mailboxes.add(user)
        return answer(asdict(user))

    def faults(self, call: Call) -> Answer:
        listed = [{**_fault(fault), "seen": seen, "struck": struck} for fault, seen, struck in self._faults.listed()]
        return answer({"faults": listed})

    def add_faults(self, call: Call) -> Answer:
        """Adds either all faults or none."""
        try:
            for fault in parse_all(_given(call)):
                self._faults.add(fault)
        except ValueError as error:
            raise _refused(str(error)) from None
        return self.faults(call)

    def clear_faults(self, call: Call) -> Answer:
        self._faults.clear()
        return self.faults(call)

    def deliver(self, call: Call) -> Answer:
        """Puts a message into a user's inbox as if it had come from outside."""
        user = call.first("user")
        if self._mailboxes.user(user) is None:
            raise _refused("specify one of the emulator's users: /emulator/deliver?user=…")
        message = self._mailboxes.receive(user, read_message(call).needed())
        return answer({"id": message.id, "threadId": message.thread_id, "labelIds": list(message.labels)})

    def change_history(self, call: Call) -> Answer:
        """Makes a user's history too old (`?expire=true`) or adds every message to the history again
        (`?repeat=true`).
        """
        user = call.first("user")
        if self._mailboxes.user(user) is None:
            raise _refused("specify one of the emulator's users: /emulator/history?user=…")
        if call.first("expire") == "true":
            self._mailboxes.forget_history(user)
        if call.first("repeat") == "true":
            self._mailboxes.repeat_history(user)
        return answer({"historyId": str(self._mailboxes.history_id)})

    def reset(self, call: Call) -> Answer:
        """Deletes all mail and faults and resets quotas. Users and tokens are kept."""
        self._mailboxes.clear()
        self._faults.clear()
        self._quota.clear()
        return self.overview(call)


@dataclass(frozen=True, slots=True)
class ControlRoute:
    name: str
    http: str
    path: str
    handle: Callable[[Control, Call], Answer]


CONTROLS = (
    ControlRoute("emulator", "GET", "/emulator", Control.overview),
    ControlRoute("emulator.messages", "GET", "/emulator/messages", Control.sent),
    ControlRoute("emulator.drafts", "GET", "/emulator/drafts", Control.drafts),
    ControlRoute("emulator.users", "GET", "/emulator/users", Control.users),
    ControlRoute("emulator.users", "POST", "/emulator/users", Control.change_user),
    ControlRoute("emulator.faults", "GET", "/emulator/faults", Control.faults),
    ControlRoute("emulator.faults", "POST", "/emulator/faults", Control.add_faults),
    ControlRoute("emulator.faults", "DELETE", "/emulator/faults", Control.clear_faults),
    ControlRoute("emulator.deliver", "POST", "/emulator/deliver", Control.deliver),
    ControlRoute("emulator.history", "POST", "/emulator/history", Control.change_history),
    ControlRoute("emulator.reset", "POST", "/emulator/reset", Control.reset),
)


def _given(call: Call) -> Any:
    try:
        return json.loads(call.body)
    except (ValueError, RecursionError):
        raise _refused("the body is not valid JSON") from None


def _refused(why: str) -> Refusal:
    return Refusal(answer({"error": why}, status=400))


def _sent(sent: Sent) -> dict[str, Any]:
    return {
        "user": sent.user,
        "id": sent.id,
        "threadId": sent.thread_id,
        "draftId": sent.draft_id,
        "at": rfc3339_ms(sent.at),
        "to": sent.to,
        "cc": sent.cc,
        "bcc": sent.bcc,
        "messageId": sent.message_id,
        "originalMessageId": sent.original_message_id,
        "headers": mime.shown(sent.headers),
        "raw": mime.base64url(sent.raw),
    }


def _draft(user: str, draft: Draft) -> dict[str, Any]:
    return {
        "user": user,
        "id": draft.id,
        "messageId": draft.message.id,
        "threadId": draft.message.thread_id,
        "at": rfc3339_ms(draft.message.at),
        "headers": mime.shown(draft.message.headers),
        "raw": mime.base64url(draft.message.raw),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "route": fault.route,
        "method": fault.method,
        "user": fault.user,
        "nth": sorted(fault.nth),
        "times": fault.times,
        "percent": fault.percent,
        "after": fault.after,
        "action": repr(fault.action),
    }
