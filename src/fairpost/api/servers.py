"""The server of an account as a request gives it, and as it is shown: shapes that are made from what each kind of transport says of
its settings. What is secret is apart from the rest, and never shown."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import Field, SecretStr, StringConstraints, create_model

from fairpost.api.answers import RequestModel, ResponseModel, Text
from fairpost.api.errors import invalid
from fairpost.model.transport import ServerSettings, TransportSettings
from fairpost.smtp.guard import NetworkGuard
from fairpost.transports.described import Group, Setting, WrongSetting
from fairpost.transports.guarded import server_refusal
from fairpost.transports.kind import TransportKind
from fairpost.transports.registry import kind_named, kind_of, kinds

M = TypeVar("M", bound=RequestModel)


class OtherServer(ResponseModel):
    """One that this version of the service cannot read."""

    kind: Literal["other"] = "other"


# ── shapes ────────────────────────────────────────────────────────────────────────────────────────────────


def with_servers(model: type[M]) -> type[M]:
    """The same, with a field for the server of each kind."""
    servers: Any = {kind.name: (_request(f"{kind.name.title()}In", kind.asked) | None, None) for kind in kinds()}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **servers)


@cache
def _request(name: str, settings: tuple[Setting, ...], about: str | None = None) -> type[RequestModel]:
    fields: Any = {each.name: (_asked(each), ... if _is_required(each) else each.default) for each in settings}
    return create_model(name, __base__=RequestModel, __doc__=about, __module__=__name__, **fields)


def _is_required(setting: Setting) -> bool:
    """A secret may stay: whether it is needed, the kind says."""
    return setting.is_needed and not setting.is_secret


def _asked(setting: Setting) -> Any:
    bounds: dict[str, Any] = {
        "min_length": setting.chars_min if not setting.is_secret else None,
        "max_length": setting.chars_max if not setting.is_secret and setting.pattern is None else None,
        "ge": setting.least,
        "le": setting.most,
        "description": setting.about or None,
    }
    is_null = not _is_required(setting) and setting.default is None
    type_ = _type_asked(setting)
    return Annotated[
        type_ | None if is_null else type_,
        Field(**{name: value for name, value in bounds.items() if value is not None}),
    ]


def _type_asked(setting: Setting) -> Any:
    if isinstance(setting.type, Group):
        return _request(setting.type.name, setting.type.settings, setting.type.about or None)
    if setting.is_secret:
        return SecretStr
    if setting.pattern is not None:
        return Annotated[str, StringConstraints(pattern=f"^{setting.pattern}$")]
    return Text if setting.type is str else setting.type


@cache
def _answer(kind: str) -> type[ResponseModel]:
    fields: Any = {"kind": (Literal[kind], kind)}
    for each in kind_named(kind).shown:
        type_: Any = each.type if each.is_needed else each.type | None  # type: ignore[operator]
        fields[each.name] = (Annotated[type_, Field(description=each.about or None)], ...)
    return create_model(f"{kind.title()}Out", __base__=ResponseModel, __module__=__name__, **fields)


if TYPE_CHECKING:
    AnyServer = ResponseModel
else:
    AnyServer = Union[(*[_answer(kind.name) for kind in kinds()], OtherServer)]


# ── given ─────────────────────────────────────────────────────────────────────────────────────────────────


def given_kind(given: RequestModel) -> TransportKind[Any] | None:
    """None: no server was given."""
    found = [kind for kind in kinds() if getattr(given, kind.name) is not None]
    if len(found) > 1:
        raise invalid(found[1].name, f"an account sends {found[0].way} or {found[1].way}, not both")
    return found[0] if found else None


def given_server(
    given: RequestModel, old: TransportSettings | None, *, mailbox: str
) -> tuple[ServerSettings | None, str | None]:
    """And the secret to seal for it. Its own `secret` is what is sealed already, where that stays. Raises ApiError."""
    kind = given_kind(given)
    if kind is None:
        return None, None
    try:
        return kind.requested(old, _plain(getattr(given, kind.name)), mailbox=mailbox)
    except WrongSetting as wrong:
        raise _invalid(kind, wrong) from None


async def check_server(server: ServerSettings | None, guard: NetworkGuard) -> None:
    """Refuses what leads into the operator's own network, or nowhere. Raises ApiError."""
    refused = await server_refusal(server, guard) if server is not None else None
    if server is not None and refused is not None:
        raise _invalid(kind_of(server), refused)


def _invalid(kind: TransportKind[Any], wrong: WrongSetting) -> Exception:
    return invalid(f"{kind.name}.{wrong.field}".rstrip("."), wrong.rule)


def _plain(given: RequestModel) -> Mapping[str, Any]:
    """Only what was given."""
    values = {name: getattr(given, name) for name in given.model_fields_set}
    return {name: _opened(value) for name, value in values.items()}


def _opened(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return _plain(value) if isinstance(value, RequestModel) else value


# ── shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def server_out(server: TransportSettings | None) -> AnyServer | None:
    if server is None:
        return None
    return (
        _answer(server.kind)(**kind_of(server).values(server)) if isinstance(server, ServerSettings) else OtherServer()
    )


def in_audit(server: ServerSettings | None) -> str | None:
    """Never what is secret."""
    return kind_of(server).in_audit(server) if server is not None else None
