"""Every state is explained where users look for it."""

import re
from pathlib import Path

from fairpost.model.campaign import CampaignState
from fairpost.model.states import MEANING, OUTBOX_WORDS, State, sequence_word

DOCS = Path(__file__).parents[2] / "docs"


def test_every_state_is_in_the_table_with_its_meaning_and_its_plain_word() -> None:
    page = (DOCS / "ARCHITECTURE.md").read_text("utf-8")
    for state in State:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{state}` | {MEANING[state]} |")]
        assert f"| {OUTBOX_WORDS[state]} |" in line
        assert {sequence_word(state, attempts) for attempts in (0, 1)} <= set(re.findall(r"`([A-Z_]+)`", line))


def test_every_state_of_a_campaign_is_explained() -> None:
    page = (DOCS / "campaigns.md").read_text("utf-8")
    for state in CampaignState:
        assert f"\n| {state} | " in page
