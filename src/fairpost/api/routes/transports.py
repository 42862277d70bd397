"""The servers that an account can have, for whoever adds one: which there are, how each signs in, and what that asks for."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, ResponseModel, failures
from fairpost.transports.described import Choice, Entry, Group, Setting, SignIn
from fairpost.transports.kind import TransportKind
from fairpost.transports.registry import kinds

router = APIRouter(prefix="/api/transports", tags=["accounts"])


class EntryOut(ResponseModel):
    name: Annotated[str, Field(description="As an account's request names it, like `smtp.host`.")]
    label: str
    hint: str
    type: Annotated[str, Field(description="As an input of HTML has it: text, number, email, password, file.")]
    options: Annotated[list[tuple[str, str]], Field(description="Values to choose from, and how each is called.")]
    default: str | None
    is_needed: bool
    is_secret: Annotated[bool, Field(description="Given, and never shown.")]
    min: int | None
    max: int | None
    maxlength: int | None
    pattern: Annotated[str | None, Field(description="Of the whole text.")]
    explained: Annotated[str, Field(description="What fits the pattern, in words.")]
    accept: str
    placeholder: str


class SignInOut(ResponseModel):
    name: Annotated[str, Field(description="What `oauth` is of a server that signs in so; else `password` or `none`.")]
    title: str
    entries: list[EntryOut]
    fixed: Annotated[dict[str, str | None], Field(description="What else the request says, like `smtp.oauth.kind`.")]
    user: Annotated[str | None, Field(description="What is the address where it is left out, like `smtp.user`.")]
    hosts: Annotated[list[str], Field(description="Only a server whose host ends so is of this choice; empty: any is.")]


class ChoiceOut(ResponseModel):
    name: str
    title: str
    about: str
    kind: Annotated[str, Field(description="What the server is called in a request, like `smtp`.")]
    presets: Annotated[list[str], Field(description="Providers whose limits fit, the usual one first.")]
    presets_instead: Annotated[
        dict[str, str], Field(description="Whose limits it has, by the provider that the address is at.")
    ]
    keeps_secret: Annotated[
        bool, Field(description="Whether a request may leave out the secrets of a server that stays the same.")
    ]
    sign_ins: Annotated[list[SignInOut], Field(description="The usual one comes first.")]


@router.get("", summary="Servers that an account can have, and what each asks for", responses=failures())
async def listed(_: Reads) -> Answer[list[ChoiceOut]]:
    """SMTP, which serves everybody, comes last."""
    return Answer(data=[_choice(kind, each) for kind in reversed(kinds()) for each in kind.choices])


def _choice(kind: TransportKind[Any], choice: Choice) -> ChoiceOut:
    return ChoiceOut(
        name=choice.name,
        title=choice.title,
        about=choice.about,
        kind=kind.name,
        presets=list(choice.presets),
        presets_instead=dict(kind.presets),
        keeps_secret=kind.keeps_secret,
        sign_ins=[_sign_in(kind, each) for each in choice.sign_ins],
    )


def _sign_in(kind: TransportKind[Any], each: SignIn) -> SignInOut:
    return SignInOut(
        name=each.name,
        title=each.title,
        entries=[_entry(kind, entry) for entry in each.entries],
        fixed={f"{kind.name}.{name}": value for name, value in each.fixed.items()},
        user=f"{kind.name}.{each.user}" if each.user else None,
        hosts=list(each.hosts),
    )


def _entry(kind: TransportKind[Any], entry: Entry) -> EntryOut:
    setting = _setting(kind.asked, entry.setting)
    usual = "password" if setting.is_secret else "number" if setting.type is int else "text"
    return EntryOut(
        name=f"{kind.name}.{entry.setting}",
        label=entry.label,
        hint=entry.hint,
        type=entry.input or usual,
        options=list(entry.options),
        default=str(setting.default) if setting.default is not None else None,
        is_needed=entry.is_needed,
        is_secret=setting.is_secret,
        min=setting.least,
        max=setting.most,
        maxlength=setting.chars_max,
        pattern=setting.pattern,
        explained=entry.explained,
        accept=entry.accept,
        placeholder=entry.placeholder,
    )


def _setting(settings: tuple[Setting, ...], path: str) -> Setting:
    name, _, rest = path.partition(".")
    found = next(each for each in settings if each.name == name)
    return _setting(found.type.settings, rest) if isinstance(found.type, Group) else found
