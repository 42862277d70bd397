"""Providers whose limits are known: what an account may begin with."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from fairpost.api.access import Reads
from fairpost.api.answers import Answer, ResponseModel, failures
from fairpost.api.limits import LimitsOut
from fairpost.api.service import TheService
from fairpost.model.transport import Security
from fairpost.providers.presets import Preset, read_presets

router = APIRouter(prefix="/api/providers", tags=["accounts"])


class ProviderServer(ResponseModel):
    host: str
    port: int
    security: Security


class Provider(ResponseModel):
    name: str
    title: str
    domains: Annotated[
        list[str],
        Field(description="An address there is known by its domain. `hotmail.*` is `hotmail` under any country."),
    ]
    smtp: Annotated[
        ProviderServer | None, Field(description="That takes mail from its mailboxes; null: nobody can say.")
    ]
    limits: LimitsOut


@router.get("", summary="Providers whose limits are known", responses=failures())
async def listed(_: Reads, service: TheService) -> Answer[list[Provider]]:
    presets = read_presets(service.settings.home / "providers.toml")
    return Answer(data=[_shown(preset) for preset in presets.values()])


def _shown(preset: Preset) -> Provider:
    limits = LimitsOut.model_validate(asdict(preset.limits))
    smtp = ProviderServer.model_validate(asdict(preset.smtp)) if preset.smtp else None
    return Provider(name=preset.name, title=preset.title, domains=list(preset.domains), smtp=smtp, limits=limits)
