"""How many files a preset, a state and an action touch, and that the count sees what it counts."""

import pytest

from tests.architecture.touched import listing_presets, listing_states, of_action, sources

STATES = '["scheduled", "ready", "claimed", "sending", "sent"]'


def test_a_preset_is_described_in_one_file() -> None:
    assert listing_presets(sources()) == ["providers/presets.toml"]


def test_states_are_listed_where_they_are_described_told_and_counted() -> None:
    """Besides the migration of its name, a new state touches these files."""
    assert listing_states(sources()) == ["api/shapes/metrics.py", "model/states.py", "observe/life.py"]


@pytest.mark.parametrize(
    ("action", "others"),
    [
        ("conversation.label", ["reasons/catalogue.py"]),
        ("email.retry", ["reasons/catalogue.py"]),
        ("webhook.rotate", []),
        ("workspace.readmit", ["store/workspaces.py"]),
    ],
)
def test_an_action_is_performed_in_one_file_and_rendered_in_two(action: str, others: list[str]) -> None:
    found = of_action(sources(), action)
    assert [path.split("/")[0] for path in found if path not in others] == ["actions", "api", "cli"]
    assert set(others) <= set(found)


def test_files_that_list_presets_and_states_are_found() -> None:
    files = {
        "providers/presets.toml": "[one]\n[two]\n[three]\n",
        "a.py": 'ORDER = ("one", "two")\n',
        "b.py": 'USUAL = "one"\n',
        "c.js": f"const STATES = {STATES};\n",
        "d.py": '"ready"\n' + "x = 1\n" * 10 + STATES.replace('"ready", ', "") + "\n",
        "dev/e.py": f"STATES = {STATES}\n",
    }
    assert listing_presets(files) == ["a.py", "providers/presets.toml"]
    assert listing_states(files) == ["c.js"]


def test_files_that_name_an_action_are_found() -> None:
    files = {
        "actions/doors.py": '@action("door.open")\nasync def open(actor, request, store):\n    raise Refusal("door.locked")\n',
        "api/routes/doors.py": "from fairpost.actions import doors as actions\n\nact(actions.open)\n",
        "cli/lid.py": "from fairpost.actions import lids\n\nact(lids.open)\n",
        "store/doors.py": "async def open_door(store): ...\n",
        "store/sql/doors.sql": "SELECT fairpost.open_door();\n",
        "reasons/catalogue.py": 'CATALOGUE = {"door.locked": "The door is locked."}\n',
    }
    found = of_action(files, "door.open")
    assert found == sorted(set(files) - {"cli/lid.py"})
    files["actions/others.py"] = 'raise Refusal("door.locked")\n'
    assert of_action(files, "door.open") == [path for path in found if path != "reasons/catalogue.py"]
