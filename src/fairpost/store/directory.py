"""The region of each workspace, as stored in the home database. The directory contains only names, no e-mail data."""

from dataclasses import dataclass
from datetime import datetime

from fairpost.model.errors import Refusal, Unknown
from fairpost.model.names import WORKSPACE_NAME
from fairpost.store.store import Store
from fairpost.system import clock

PLACEMENTS_MAX = 1_000  # time limit for each response


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    workspace: str
    region: str
    created_at: datetime


async def place(home: Store, workspace: str, *, region: str) -> None:
    """Place a workspace in a region permanently. The workspace's queue and history are stored in that region and cannot
    be moved.

    Placing a workspace in the same region again has no effect. Raises Refusal.
    """
    if not WORKSPACE_NAME.fullmatch(workspace):
        raise Refusal("workspace.bad_name", name=workspace)
    sql = "SELECT fairpost.place_workspace($1, $2, $3)"
    lives_in = await home.value(sql, workspace, region, clock.stated())
    if lives_in != region:
        raise Refusal("workspace.placed_elsewhere", workspace=workspace, lives_in=lives_in, region=region)


async def find_region(home: Store, workspace: str) -> str | None:
    region: str | None = await home.value("SELECT d.region FROM fairpost.directory d WHERE d.workspace = $1", workspace)
    return region


async def region_of(home: Store, workspace: str) -> str:
    region = await find_region(home, workspace)
    if region is None:
        raise Unknown("region.unknown", workspace=workspace)
    return region


async def placements(
    home: Store, *, region: str | None = None, after: str = "", most: int = PLACEMENTS_MAX
) -> list[Placement]:
    """Return placements sorted by name, starting after `after`."""
    rows = await home.fetch(
        """SELECT d.workspace, d.region, d.created_at FROM fairpost.directory d
           WHERE d.workspace > $1 AND ($2::text IS NULL OR d.region = $2) ORDER BY d.workspace LIMIT $3""",
        *(after, region, most),
    )
    return [Placement(**row) for row in rows]
