"""Which workspace lives in which region, as the home database knows it. It holds names, and nothing of any e-mail."""

from dataclasses import dataclass
from datetime import datetime

from fairpost.model.errors import FairpostError, NotFound
from fairpost.model.workspace import WORKSPACE_NAME
from fairpost.postgres.store import Store
from fairpost.system import clock

PLACEMENTS_MAX = 1_000  # in one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    workspace: str
    region: str
    created_at: datetime


async def place(home: Store, workspace: str, *, region: str) -> None:
    """For good: what it has queued and sent is there, and moving is not offered. Placing it again in the same is nothing."""
    if not WORKSPACE_NAME.fullmatch(workspace):
        raise FairpostError(
            f"A workspace in the directory must be 1..100 of a-z, 0-9 and ._-, beginning with a letter or digit, got {workspace!r}"
        )
    sql = "SELECT fairpost.place_workspace($1, $2, $3)"
    lives_in = await home.value(sql, workspace, region, clock.stated())
    if lives_in != region:
        raise FairpostError(
            f"The workspace {workspace} lives in {lives_in}, with all its e-mails; moving it is not offered. "
            f"Place another workspace in {region}"
        )


async def region_of(home: Store, workspace: str) -> str:
    region: str | None = await home.value("SELECT d.region FROM fairpost.directory d WHERE d.workspace = $1", workspace)
    if region is None:
        raise NotFound(f"No region is known for {workspace!r}. Place it: fairpost region place WORKSPACE REGION")
    return region


async def placements(
    home: Store, *, region: str | None = None, after: str = "", most: int = PLACEMENTS_MAX
) -> list[Placement]:
    """By name, those after this one."""
    rows = await home.fetch(
        """SELECT d.workspace, d.region, d.created_at FROM fairpost.directory d
           WHERE d.workspace > $1 AND ($2::text IS NULL OR d.region = $2) ORDER BY d.workspace LIMIT $3""",
        *(after, region, most),
    )
    return [Placement(**row) for row in rows]
