"""Logins of the database, each with what it was given. All of them are after what belongs to `berta`."""

from collections.abc import Mapping

from tests.api.neighbours import A

# By name: the workspaces it acts for, `*` for all; None: it was never let in.
LOGINS: Mapping[str, tuple[str, ...] | None] = {
    "attack_nobody": None,
    "attack_reader": None,  # may read everything on the server, which is a right to schemas, too
    "attack_newcomer": (),  # let in, and named nowhere
    "attack_neighbour": (A,),
    "attack_operator": ("*",),
}
READS_EVERYTHING = frozenset({"attack_reader"})
