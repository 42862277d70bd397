"""Only the store runs SQL. `accept/` is exempt because it runs on the application's own connection, and `dev/` because it
measures and simulates on databases of its own."""

import ast
from collections.abc import Iterator

from tests.architecture.source import PACKAGE, trees
from tests.architecture.test_imports import room_of

RUNS = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "row", "value", "cursor", "copy_records_to_table"}
EXEMPT = ("store", "accept", "dev")
FETCH_MAIL = {"imap/client.py", "transports/smtp/read.py"}  # a method with the same name


def run_by(tree: ast.Module) -> Iterator[str]:
    """Yields every call of a method that runs SQL, however its statement came about."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in RUNS:
                yield ast.unparse(node)


def test_only_the_store_runs_sql() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {' '.join(text.split())[:80]}"
        for path, tree in trees().items()
        if room_of(path).partition(".")[0] not in EXEMPT and str(path.relative_to(PACKAGE)) not in FETCH_MAIL
        for text in run_by(tree)
    ]
    assert found == []


def test_sql_is_found_wherever_it_is_run() -> None:
    source = """
async def read(store, conn, name, queries):
    await store.fetch(queries.WHOLE)
    await conn.fetchval(f"SELECT {name}")
    await store.connection().execute("SELECT 3")
"""
    assert len(list(run_by(ast.parse(source)))) == 3
