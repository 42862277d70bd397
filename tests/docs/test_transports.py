"""docs/transports.md shows a working kind: the one that tests/transports/test_new_kind.py uses."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "transports.md").read_text()
TRANSPORTS = ROOT / "src" / "fairpost" / "transports"


def test_the_example_is_the_one_that_is_tested() -> None:
    [shown] = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert shown == (ROOT / "tests" / "transports" / "pigeon" / "kind.py").read_text()


def test_every_module_that_is_named_is_there() -> None:
    modules = {
        name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+\.py)`", line)
    }
    kinds = [path.parent for path in TRANSPORTS.glob("*/kind.py")]
    assert [name for name in modules if not any((kind / name).exists() for kind in kinds)] == []
