"""The promises of the classifier, on a labelled set of real mails, where there is one: FAIRPOST_TEST_BOUNCES names its folder."""

import os
from pathlib import Path

import pytest

from tests.returns.labelled import by_us, counts

FOLDER = os.environ.get("FAIRPOST_TEST_BOUNCES")


@pytest.mark.skipif(not FOLDER, reason="FAIRPOST_TEST_BOUNCES names no folder of labelled mails")
def test_the_labelled_set_is_understood() -> None:
    count = counts(Path(FOLDER or ""), by_us)
    wrong = [
        f"{part}: {count[part]} of {count[whole]}"
        for part, whole, share in (
            ("recipients found", "recipients", 0.95),
            ("temporary or permanent right", "temporary or permanent", 0.95),
            ("hard suppressed", "hard", 0.90),
            ("complaints right", "complaints", 1.0),
            ("auto_replys right", "auto_replys", 1.0),
        )
        if count[part] < share * count[whole]
    ]
    assert not wrong
    assert count["suppressed against the label"] <= 0.02 * count["not hard"]
