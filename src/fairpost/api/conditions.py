"""Conditions in the form that a caller may see. All paths and pages use the same shape."""

from dataclasses import replace
from typing import Any

from fairpost.api.access import Caller
from fairpost.api.names import SHARED, own_account, own_name
from fairpost.model.reason import Reason
from fairpost.policy.conditions import Condition
from fairpost.reasons import rendering
from fairpost.reasons.rendering import Shown

HIDDEN = ("why", "server", "by")  # parameters that reveal the operator's own accounts and decisions


def shown(condition: Condition, caller: Caller | None = None, *, zone: str | None = None) -> Shown:
    """Returns a condition without details that the caller may not see. `caller` is None for admins."""
    if caller is None:
        return rendering.shown(condition, zone=zone)
    known = replace(condition, reason=known_reason(condition.reason, caller))
    told = rendering.shown(known, zone=zone)
    return replace(told, text=without_its_name(told.text), then="")


def told_reason(reason: Reason | None, caller: Caller, name: str = "reason") -> dict[str, Any]:
    """Returns a condition as text, with its code and parameters."""
    if reason is None:
        return rendering.coded(None, name)
    told = rendering.coded(known_reason(reason, caller), name)
    return {**told, name: without_its_name(told[name])}


def without_its_name(text: str) -> str:
    """Removes the account's name from a text if the caller must not see that name."""
    return text.replace(f"Account {SHARED}", SHARED.capitalize()).replace(f"account {SHARED}", SHARED)


def known_reason(reason: Reason, caller: Caller) -> Reason:
    """Returns the reason, limited to what the caller may see."""
    params = {
        name: known_reason(value, caller) if isinstance(value, Reason) else value
        for name, value in reason.params.items()
    }
    if isinstance(pool := params.get("pool"), str):
        params["pool"] = own_name(pool, caller)
    if isinstance(account := params.get("account"), str):
        params["account"] = own_account(account, caller) or SHARED
        # The figures in `account.blocks_workspace` describe the workspace itself, so the workspace may see them.
        if params["account"] == SHARED and reason.code != "account.blocks_workspace":
            params |= dict.fromkeys((name for name in HIDDEN if name in params), None)
    if "by" in params and reason.code.startswith("everything."):
        params["by"] = "the operator"
    return Reason(reason.code, **params)
