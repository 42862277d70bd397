"""Health and readiness of the service."""

from typing import Annotated

from pydantic import Field

from fairpost.api.answers import ResponseModel


class Health(ResponseModel):
    status: str


class Readiness(Health):
    regions: Annotated[
        dict[str, bool], Field(description="Whether each region responds. Regions are independent of each other.")
    ]
