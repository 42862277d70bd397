"""docs/emulate.md names everything that exists, and nothing else."""

import re
from pathlib import Path

from fairpost.dev.emulate.control import CONTROLS
from fairpost.dev.emulate.faults import REASONS, Kind, What, parse_all
from fairpost.dev.emulate.methods import METHODS

PAGE = (Path(__file__).parents[3] / "docs" / "emulate.md").read_text()


def test_every_action_and_reason_is_explained() -> None:
    assert [name for name in (*Kind, *What, *REASONS) if f"`{name}`" not in PAGE] == []


def test_every_address_of_the_control_is_named() -> None:
    paths = {route.path for route in CONTROLS}
    assert [path for path in paths if not re.search(rf" {re.escape(path)}[`?]", PAGE)] == []


def test_every_method_is_named() -> None:
    for method in METHODS:
        assert "/" + method.path.split("/")[1] in PAGE


def test_the_script_in_it_can_be_read() -> None:
    import json

    (script,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    routes = {"token", "messages.*", *(method.name for method in METHODS)}
    assert {fault.route for fault in parse_all(json.loads(script))} <= routes
