"""Which part may import which. Parts stay separate; app.py and the command line assemble them."""

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.architecture.source import PACKAGE, SRC, statements, trees

# part: the parts that it may import. Each may import itself.
MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "policy": {"model"},
    "system": set(),
    "__init__": {"accept", "model"},
    "__main__": {"cli", "extras"},
    "accept": {"model"},
    "dev": set(),
    "actions": {
        "auth",
        "campaigns",
        "model",
        "observe",
        "policy",
        "portals",
        "providers",
        "regions",
        "quality",
        "store",
        "system",
        "templates",
        "transports",
        "vault",
        "smtp",
        "webhooks",
    },
    "reasons": {"model", "policy"},
    "api": {
        "actions",
        "reasons",
        "api.inbox",
        "auth",
        "campaigns",
        "charts",
        "compose",
        "extras",
        "model",
        "observe",
        "policy",
        "portals",
        "prospects",
        "providers",
        "quality",
        "regions",
        "settings",
        "smtp",
        "store",
        "system",
        "templates",
        "transports",
        "vault",
    },
    "api.inbox": {"api", "dev.inbox", "quality", "store"},
    "auth": {"model", "portals", "store", "system", "templates"},
    "campaigns": {"compose", "model", "policy", "quality", "store", "system", "templates"},
    "charts": {"model"},
    "cli": {
        "actions",
        "reasons",
        "accept",
        "api",
        "auth",
        "campaigns",
        "charts",
        "dev.bench",
        "dev.demo",
        "dev.emulate",
        "dev.inbox",
        "dev.simulate",
        "engine",
        "maintenance",
        "model",
        "observe",
        "policy",
        "portals",
        "prospects",
        "providers",
        "receive",
        "quality",
        "regions",
        "returns",
        "settings",
        "startup",
        "store",
        "system",
        "templates",
        "transports",
        "vault",
        "webhooks",
    },
    "compose": {"model"},
    "dev.bench": {
        "api",
        "auth",
        "campaigns",
        "compose",
        "engine",
        "model",
        "portals",
        "smtp",
        "store",
        "system",
        "templates",
        "transports",
        "vault",
        "webhooks",
        "maintenance",
    },
    "dev.demo": {"campaigns", "dev.inbox", "model", "policy", "portals", "store", "system", "templates", "transports"},
    "dev.emulate": {"model", "system"},
    "dev.inbox": {"actions", "compose", "model", "quality", "smtp", "store", "system"},
    "dev.simulate": {
        "charts",
        "dev.emulate",
        "dev.inbox",
        "engine",
        "model",
        "policy",
        "providers",
        "smtp",
        "store",
        "system",
        "transports",
    },
    "engine": {"campaigns", "model", "policy", "store", "system", "templates", "transports"},
    "extras": {"model"},
    "maintenance": {
        "campaigns",
        "model",
        "policy",
        "reasons",
        "returns",
        "smtp",
        "store",
        "system",
        "transports",
        "webhooks",
    },
    "observe": {"model", "policy", "reasons", "store", "system", "transports", "webhooks"},
    "portals": {"model", "store", "templates"},
    "prospects": {"model"},
    "providers": {"model", "policy"},
    "quality": {"compose", "model"},
    "receive": {"maintenance", "model", "returns", "smtp", "store", "system"},
    "returns": {"model", "policy"},
    "regions": {"model", "policy", "store", "system", "transports", "vault"},
    "setting_kinds": {"model", "regions", "vault"},
    "settings": {"model", "regions", "setting_kinds", "vault"},
    "imap": {"model", "smtp"},
    "smtp": {"model", "policy"},
    "startup": {
        "actions",
        "maintenance",
        "api",
        "auth",
        "engine",
        "extras",
        "model",
        "observe",
        "policy",
        "portals",
        "providers",
        "reasons",
        "regions",
        "settings",
        "smtp",
        "store",
        "system",
        "transports",
        "vault",
    },
    "store": {"model", "system", "transports"},
    "templates": {"model"},
    "transports": {"compose", "imap", "model", "providers", "smtp", "system", "vault"},
    "vault": {"model"},
    "webhooks": {"model", "policy", "smtp", "system"},
}

PURE = ("charts", "model", "policy", "returns")
IO_MODULES = {"asyncio", "asyncpg", "os", "pathlib", "random", "socket", "subprocess", "threading", "time"}


def room_of(path: Path) -> str:
    return room_named(path.relative_to(SRC).with_suffix("").parts)


def room_named(parts: Sequence[str]) -> str:
    """Each development tool may only be imported by its own commands, and one by the API."""
    within = ".".join(parts[1:3])
    is_within = within == "api.inbox" or (parts[1] == "dev" and len(parts) > 2 and parts[2] != "__init__")
    return within if is_within else parts[1]


def imports_of(tree: ast.Module) -> set[str]:
    found = set()
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def all_imports() -> dict[Path, set[str]]:
    return {path: imports_of(tree) for path, tree in trees().items()}


def test_a_room_imports_only_the_rooms_it_may_know() -> None:
    wrong = []
    for path, imported in all_imports().items():
        room = room_of(path)
        assert room in MAY_IMPORT, f"{room} is a new room: say here whom it may know"
        rooms = {room_named(name.split(".")) for name in imported if name.startswith("fairpost.")} - {"dev"}
        ours = {name for name in rooms if name in MAY_IMPORT}
        wrong += [f"{path.relative_to(SRC)} imports {name}" for name in sorted(ours - {room} - MAY_IMPORT[room])]
    assert wrong == []


def test_decisions_do_no_io_and_read_no_clock() -> None:
    pure = {path: imported for path, imported in all_imports().items() if room_of(path) in PURE}
    found = {path: {name.split(".")[0] for name in imported} & IO_MODULES for path, imported in pure.items()}
    assert [f"{path.relative_to(SRC)} imports {', '.join(sorted(io))}" for path, io in found.items() if io] == []


def test_shapes_know_nothing_of_the_requests_they_are_for() -> None:
    allowed = ("fairpost.api.answers", "fairpost.api.limits", "fairpost.api.shapes")
    shapes = {path: names for path, names in all_imports().items() if path.parent == PACKAGE / "api" / "shapes"}
    assert shapes
    wrong = {
        f"{path.name} imports {name}"
        for path, names in shapes.items()
        for name in names
        if name.startswith("fairpost.api.") and not name.startswith(allowed)
    }
    assert wrong == set()


def test_every_rule_is_about_a_room_that_exists() -> None:
    rooms = {room_of(path) for path in all_imports()}
    assert set(MAY_IMPORT) <= rooms
