"""Every state is explained where people look for it."""

from pathlib import Path

from fairpost.model.campaign import CampaignState
from fairpost.model.states import MEANING, OUTBOX_WORDS, State

DOCS = Path(__file__).parents[2] / "docs"


def test_every_state_is_in_the_table_with_its_meaning_and_its_plain_word() -> None:
    page = (DOCS / "ARCHITECTURE.md").read_text("utf-8")
    for state in State:
        assert f"| `{state}` | {MEANING[state]} | {OUTBOX_WORDS[state]} |" in page


def test_every_state_of_a_campaign_is_explained() -> None:
    page = (DOCS / "campaigns.md").read_text("utf-8")
    for state in CampaignState:
        assert f"\n| {state} | " in page
