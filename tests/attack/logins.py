"""Database logins, each with its grants. All of them try to reach what belongs to `berta`."""

from collections.abc import Mapping

from tests.api.neighbours import A

# By name: the workspaces it acts for, or `*` for all. None: it was never granted access.
LOGINS: Mapping[str, tuple[str, ...] | None] = {
    "attack_nobody": None,
    "attack_reader": None,  # may read everything on the server, which includes the use of schemas
    "attack_newcomer": (),  # has access, but for no workspace
    "attack_neighbour": (A,),
    "attack_operator": ("*",),
}
READS_EVERYTHING = frozenset({"attack_reader"})
