"""Helpers for the admin paths: choosing the region."""

from typing import Annotated

from fastapi import Query

from fairpost.api.answers import Text
from fairpost.api.errors import not_found
from fairpost.api.service import Service
from fairpost.store.store import Store

RegionQuery = Annotated[
    Text | None, Query(max_length=31, description="The name of the region. [default: the first region]")
]


def region_meant(service: Service, region: str | None) -> str:
    if region is None:
        return service.regions[0]
    if region not in service.regions:
        raise not_found("region", region, where="")
    return region


async def store_meant(service: Service, region: str | None) -> Store:
    return await service.store_of(region_meant(service, region))
