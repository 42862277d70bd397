"""For load balancers and Prometheus: no key, no names."""

from fastapi import APIRouter, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from fairpost.api.answers import Answer, Model, failures
from fairpost.api.errors import ApiError
from fairpost.api.service import TheService

TAG = {"name": "health", "description": "For load balancers and Prometheus."}
router = APIRouter(tags=["health"])


class Health(Model):
    status: str


@router.get("/healthz", summary="Whether this process answers")
async def healthz() -> Answer[Health]:
    return Answer(data=Health(status="ok"))


@router.get("/readyz", summary="Whether the home database answers", responses=failures())
async def readyz(service: TheService) -> Answer[Health]:
    if await service.home.value("SELECT 1") != 1:
        raise ApiError("unavailable", "The database does not answer.")
    return Answer(data=Health(status="ok"))


@router.get(
    "/metrics",
    summary="Figures for Prometheus, without names",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **failures()},
)
async def metrics(service: TheService) -> Response:
    return Response(await service.scrapes.page(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
