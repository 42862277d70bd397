"""Whether the service lives, and whether it is ready."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel


class Health(ResponseModel):
    status: str


class Readiness(Health):
    regions: Annotated[dict[str, bool], Field(description="Whether each region answers. The others work without it.")]
