"""Health checks for load balancers. The checks need no key and show no names except region names.

Prometheus metrics have their own listener: `fairpost metrics`.
"""

import asyncio

from fairpost.api.answers import Answer, failures
from fairpost.api.routing import Router
from fairpost.api.service import TheService
from fairpost.api.shapes.health import Health, Readiness

TAG = {"name": "health", "description": "Health checks for load balancers."}
router = Router(tags=["health"])


HOME_S_MAX = 3.0


@router.get("/healthz", summary="Check that this process responds")
async def get_liveness() -> Answer[Health]:
    return Answer(data=Health(status="ok"))


@router.get("/readyz", summary="Check that the home database responds", responses=failures())
async def get_readiness(service: TheService) -> Answer[Readiness]:
    async with asyncio.timeout(HOME_S_MAX):
        await service.home.ping()
    return Answer(data=Readiness(status="ok", regions=await service.sights()))
