"""Reads an account's server from a request, checks the server, and renders it in responses."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from fairpost.actions.accounts import require_server
from fairpost.api.acting import refused
from fairpost.api.answers import RequestModel
from fairpost.api.errors import invalid
from fairpost.api.shapes.servers import AnyServer, OtherServer, server_answer
from fairpost.model.errors import Refusal
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.described import WrongSetting
from fairpost.transports.kind import TransportKind
from fairpost.transports.registry import kind_of, kinds


def given_kind(given: RequestModel) -> TransportKind[Any] | None:
    """Returns the transport whose settings the request contains, or None if it contains none."""
    found = [kind for kind in kinds() if getattr(given, kind.name) is not None]
    if len(found) > 1:
        raise invalid(found[1].name, f"an account can send {found[0].way} or {found[1].way}, but not both")
    return found[0] if found else None


def given_server(
    given: RequestModel, old: TransportSettings | None, *, mailbox: str
) -> tuple[ServerSettings | None, str | None]:
    """Returns the server settings, and the secret to seal.

    If the secret is kept, the settings contain the sealed secret. Raises ApiError.
    """
    kind = given_kind(given)
    if kind is None:
        return None, None
    try:
        return kind.requested(old, _plain(getattr(given, kind.name)), mailbox=mailbox)
    except WrongSetting as wrong:
        raise invalid(f"{kind.name}.{wrong.field}".rstrip("."), wrong.rule) from None


async def check_server(server: ServerSettings | None, guard: NetworkGuard) -> None:
    """Rejects servers in the operator's network and unknown hosts. Raises ApiError."""
    try:
        await require_server(server, guard)
    except Refusal as refusal:
        raise refused(refusal.reason) from None


def _plain(given: RequestModel) -> Mapping[str, Any]:
    """Returns only the fields that the request contains."""
    values = {name: getattr(given, name) for name in given.model_fields_set}
    return {name: _opened(value) for name, value in values.items()}


def _opened(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return _plain(value) if isinstance(value, RequestModel) else value


def server_out(server: TransportSettings | None) -> AnyServer | None:
    if server is None:
        return None
    return (
        server_answer(server.kind)(**kind_of(server).values(server))
        if isinstance(server, ServerSettings)
        else OtherServer()
    )


def in_audit(server: ServerSettings | None) -> str | None:
    """Returns the server as written to the audit log, without secrets."""
    return kind_of(server).in_audit(server) if server is not None else None
