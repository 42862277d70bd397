"""The report finds long code and repetitions."""

from tests.architecture.report import large_classes, long_files, long_functions, repeated_runs

TWICE = "\n".join(f"    total += {n}" for n in range(7))
FILES = {
    "a.py": f"class A:\n    def one(self):\n        pass\n\n    def two(self):\n        pass\n\n\ndef add(total):\n{TWICE}\n",
    "b.py": f'def other(total):\n    """What it is for."""\n\n{TWICE}\n    return total\n',
}


def test_long_files_functions_and_classes_come_first() -> None:
    assert [(each.name, each.size) for each in long_files(FILES)] == [("a.py", 16), ("b.py", 11)]
    assert [(each.name, each.size) for each in long_functions(FILES)[:2]] == [("b.py:1 other", 10), ("a.py:9 add", 8)]
    assert [(each.name, each.size) for each in large_classes(FILES)] == [("a.py:1 A", 2)]


def test_a_repeated_run_is_found_once_and_whole() -> None:
    (run,) = repeated_runs(FILES)
    assert (run.lines, run.first, run.second) == (7, "a.py:10", "b.py:4")


def test_a_short_repetition_is_not_reported() -> None:
    assert repeated_runs({"a.py": "x = 1\ny = 2\n", "b.py": "x = 1\ny = 2\n"}) == []


def test_names_that_are_imported_are_not_reported() -> None:
    imported = "from a import (\n" + "".join(f"    name_{n},\n" for n in range(9)) + ")\n"
    assert repeated_runs({"a.py": imported, "b.py": imported}) == []
    assert repeated_runs({"a.py": imported + TWICE, "b.py": imported + TWICE})[0].lines == 7
