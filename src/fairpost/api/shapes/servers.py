"""An account's server in requests and responses, derived from the settings of each kind of transport.

Secrets are kept separate from the other settings and are never shown.
"""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, create_model

from fairpost.api.answers import RequestModel, ResponseModel, Text, require_unicode
from fairpost.transports.described import Group, Setting
from fairpost.transports.registry import kind_named, kinds

M = TypeVar("M", bound=RequestModel)


def _is_unicode(secret: SecretStr) -> SecretStr:
    """Checks the text, which is checked by its type in other fields."""
    require_unicode(secret.get_secret_value())
    return secret


Secret = Annotated[SecretStr, AfterValidator(_is_unicode)]


class OtherServer(ResponseModel):
    """A kind of transport that this version does not recognize."""

    kind: Literal["other"] = "other"


def with_servers(model: type[M]) -> type[M]:
    """Returns the model with an additional field for each kind of transport, for the server's settings."""
    servers: Any = {kind.name: (_request(f"{kind.name.title()}In", kind.asked) | None, None) for kind in kinds()}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **servers)


@cache
def _request(name: str, settings: tuple[Setting, ...], about: str | None = None) -> type[RequestModel]:
    fields: Any = {each.name: (_asked(each), ... if _is_required(each) else each.default) for each in settings}
    return create_model(name, __base__=RequestModel, __doc__=about, __module__=__name__, **fields)


def _is_required(setting: Setting) -> bool:
    """Returns whether a setting is required. Secrets are optional here, because the kind of transport checks whether a
    secret is required.
    """
    return setting.is_needed and not setting.is_secret


def _asked(setting: Setting) -> Any:
    bounds: dict[str, Any] = {
        "min_length": setting.chars_min if not setting.is_secret else None,
        "max_length": setting.chars_max if setting.pattern is None else None,
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
        return Secret
    if setting.pattern is not None:
        return Annotated[str, StringConstraints(pattern=f"^{setting.pattern}$")]
    return Text if setting.type is str else setting.type


@cache
def server_answer(kind: str) -> type[ResponseModel]:
    fields: Any = {"kind": (Literal[kind], kind)}
    for each in kind_named(kind).shown:
        type_: Any = each.type if each.is_needed else each.type | None  # type: ignore[operator]
        fields[each.name] = (Annotated[type_, Field(description=each.about or None)], ...)
    return create_model(f"{kind.title()}Out", __base__=ResponseModel, __module__=__name__, **fields)


if TYPE_CHECKING:
    AnyServer = ResponseModel
else:
    AnyServer = Union[(*[server_answer(kind.name) for kind in kinds()], OtherServer)]
