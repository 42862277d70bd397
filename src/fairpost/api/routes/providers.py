"""Provider presets for new accounts."""

from dataclasses import asdict

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, failures
from fairpost.api.limits import LimitsOut
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.providers import Provider, ProviderServer
from fairpost.providers.presets import Preset, read_presets

router = Router(prefix="/v1/providers", tags=["accounts"])


@router.get("", summary="List providers with known limits", responses=failures())
async def list_providers(_: Reads, service: TheService) -> Answer[list[Provider]]:
    presets = read_presets(service.settings.home / "providers.toml")
    return Answer(data=[_shown(preset) for preset in presets.values()])


def _shown(preset: Preset) -> Provider:
    limits = LimitsOut.model_validate(asdict(preset.limits))
    smtp = ProviderServer.model_validate(asdict(preset.smtp)) if preset.smtp else None
    return Provider(name=preset.name, title=preset.title, domains=list(preset.domains), smtp=smtp, limits=limits)
