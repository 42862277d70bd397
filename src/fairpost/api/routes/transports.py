"""The kinds of server that an account can use, with the sign-in methods and settings of each."""

from typing import Any

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.transports import ChoiceOut, EntryOut, SignInOut
from fairpost.providers.presets import Presets, read_presets
from fairpost.transports.described import Choice, Entry, Group, Setting, SignIn
from fairpost.transports.kind import TransportKind
from fairpost.transports.registry import kinds

router = Router(prefix="/v1/transports", tags=["accounts"])


@router.get("", summary="List the kinds of server that an account can use, and their settings", responses=failures())
async def list_transports(_: Reads, service: TheService) -> Answer[list[ChoiceOut]]:
    """Generic SMTP is the last item in the list."""
    presets = read_presets(service.settings.home / "providers.toml")
    return Answer(data=[_choice(kind, each, presets) for kind in reversed(kinds()) for each in kind.choices])


def _choice(kind: TransportKind[Any], choice: Choice, presets: Presets) -> ChoiceOut:
    fitting = [name for name, each in presets.items() if name == choice.preset or choice.name in each.choices]
    return ChoiceOut(
        name=choice.name,
        title=choice.title,
        about=choice.about,
        kind=kind.name,
        presets=sorted(fitting, key=lambda name: name != choice.preset),
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
