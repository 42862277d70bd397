"""Only the store runs SQL. `accept/` is exempt because it runs on the application's own connection, and `dev/` because it
measures and simulates on databases of its own."""

import ast
from collections.abc import Iterator

from tests.architecture.source import PACKAGE, trees
from tests.architecture.test_imports import room_of

RUNS = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "row", "value", "cursor", "copy_records_to_table"}
EXEMPT = ("store", "accept", "dev")


def run_by(tree: ast.Module) -> Iterator[str]:
    """Yields the statements that a module runs: the text, or the constant or variable that contains it."""
    texts = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.JoinedStr)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in RUNS:
                match first:
                    case ast.Constant(value=str(text)):
                        yield text
                    case ast.JoinedStr():
                        yield ast.unparse(first)
                    case ast.Name(id=constant) if constant in texts:
                        yield constant


def test_only_the_store_runs_sql() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {' '.join(text.split())[:60]}"
        for path, tree in trees().items()
        if room_of(path).partition(".")[0] not in EXEMPT
        for text in run_by(tree)
    ]
    assert found == []


def test_sql_is_found_wherever_it_is_run() -> None:
    source = """
WHOLE = "SELECT 1"

async def read(store, conn, name):
    sql = "SELECT 2"
    await store.fetch(WHOLE)
    await conn.fetchval(f"SELECT {name}")
    await store.row(sql, name)
    await store.value("SELECT 3")
"""
    assert sorted(run_by(ast.parse(source))) == ["SELECT 3", "WHOLE", "f'SELECT {name}'", "sql"]
