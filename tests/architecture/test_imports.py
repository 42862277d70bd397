"""Who may know whom. The rooms of the house stay apart; app.py and the command line put them together."""

import ast
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
PACKAGE = SRC / "fairpost"

# room: the rooms of ours it may import. Each may import itself.
MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "policy": {"model"},
    "system": set(),
    "accept": {"model"},
    "charts": set(),
    "campaigns": {"compose", "model", "policy", "postgres", "system", "templates"},
    "compose": {"model"},
    "demo": {"campaigns", "inbox", "model", "policy", "postgres", "system", "templates"},
    "deliver": {"campaigns", "model", "policy", "system", "postgres", "templates", "transport"},
    "emulate": {"model", "system"},
    "inbox": {"model", "system", "postgres"},
    "observe": {"model", "policy", "system", "postgres"},
    "smtp": {"model", "policy"},
    "oauth": {"model", "system"},
    "gmail": {"model", "oauth", "system"},
    "templates": {"model"},
    "transport": {"model", "compose", "gmail", "oauth", "smtp", "system", "vault"},
    "vault": {"model"},
    "postgres": {"model", "system"},
    "api": {
        "campaigns",
        "charts",
        "inbox",
        "lending",
        "model",
        "oauth",
        "observe",
        "people",
        "policy",
        "portals",
        "postgres",
        "prospects",
        "providers",
        "regions",
        "settings",
        "smtp",
        "system",
        "templates",
        "transport",
        "vault",
    },
    "people": {"model", "postgres", "system", "templates"},
    "bench": {
        "api",
        "campaigns",
        "compose",
        "deliver",
        "model",
        "people",
        "portals",
        "postgres",
        "smtp",
        "system",
        "templates",
        "transport",
    },
    "prospects": {"model"},
    "providers": {"model"},
    "simulate": {
        "charts",
        "deliver",
        "emulate",
        "gmail",
        "inbox",
        "model",
        "oauth",
        "policy",
        "postgres",
        "providers",
        "smtp",
        "system",
        "transport",
    },
    "portals": {"model", "postgres", "templates"},
    "lending": {"model", "providers", "settings"},
    "app": {
        "model",
        "oauth",
        "people",
        "policy",
        "portals",
        "regions",
        "settings",
        "smtp",
        "system",
        "postgres",
        "vault",
    },
    "regions": {"model", "policy", "postgres", "system", "vault"},
    "settings": {"model", "regions", "vault"},
    "environment": {"model", "policy", "postgres", "providers", "regions", "settings", "transport", "vault"},
    "engine": {"app", "deliver", "environment", "model", "observe", "postgres", "settings", "system", "transport"},
    "service": {"api", "app", "model", "postgres", "regions", "settings"},
    "cli": {
        "accept",
        "api",
        "app",
        "bench",
        "campaigns",
        "deliver",
        "demo",
        "emulate",
        "engine",
        "environment",
        "inbox",
        "lending",
        "model",
        "oauth",
        "observe",
        "people",
        "policy",
        "portals",
        "postgres",
        "prospects",
        "providers",
        "service",
        "regions",
        "settings",
        "simulate",
        "system",
        "templates",
        "transport",
        "vault",
    },
    "__init__": {"accept", "model"},
    "__main__": {"cli"},
}

PURE = ("charts", "model", "policy")
IO_MODULES = {"asyncio", "asyncpg", "os", "pathlib", "random", "socket", "subprocess", "threading", "time"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def all_imports() -> dict[Path, set[str]]:
    return {path: imports_of(path) for path in sorted(PACKAGE.rglob("*.py"))}


def test_a_room_imports_only_the_rooms_it_may_know() -> None:
    wrong = []
    for path, imported in all_imports().items():
        room = room_of(path)
        assert room in MAY_IMPORT, f"{room} is a new room: say here whom it may know"
        rooms = {name.split(".")[1] for name in imported if name.startswith("fairpost.")}
        ours = {name for name in rooms if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}
        wrong += [f"{path.relative_to(SRC)} imports {name}" for name in sorted(ours - {room} - MAY_IMPORT[room])]
    assert wrong == []


def test_decisions_do_no_io_and_read_no_clock() -> None:
    pure = {path: imported for path, imported in all_imports().items() if room_of(path) in PURE}
    found = {path: {name.split(".")[0] for name in imported} & IO_MODULES for path, imported in pure.items()}
    assert [f"{path.relative_to(SRC)} imports {', '.join(sorted(io))}" for path, io in found.items() if io] == []


def test_every_rule_is_about_a_room_that_exists() -> None:
    rooms = {room_of(path) for path in all_imports()}
    assert set(MAY_IMPORT) <= rooms
