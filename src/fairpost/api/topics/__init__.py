"""Live topics by name. Each topic creates a look: a query that is repeated for all of its watchers.

A topic's state is the same for everyone who may see its workspace, or for all admins. The state contains nothing
specific to one watcher."""

from collections.abc import Mapping

from fairpost.api.topics.accounts import account_look, accounts_look
from fairpost.api.topics.campaigns import campaign_look, campaigns_look
from fairpost.api.topics.email import email_look
from fairpost.api.topics.events import events_look
from fairpost.api.topics.fairness import fairness_look
from fairpost.api.topics.now import now_look
from fairpost.api.topics.watching import Asked, Watched, Watcher
from fairpost.extras import Extra, is_installed

__all__ = ["TOPICS", "Asked", "Watched", "Watcher"]


def _for_development() -> dict[str, Watched]:
    """Topics that need the development inbox."""
    if not is_installed(Extra.LOCAL):
        return {}
    from fairpost.api.inbox.topic import inbox_look

    return {"inbox": Watched(look=inbox_look, is_for_admins=True)}


TOPICS: Mapping[str, Watched] = {
    "now": Watched(look=now_look),
    "accounts": Watched(look=accounts_look, takes=("having", "situation")),
    "account": Watched(look=account_look, takes=("name",)),
    "campaigns": Watched(look=campaigns_look),
    "campaign": Watched(look=campaign_look, takes=("name",)),
    "email": Watched(look=email_look, takes=("name",)),
    "events": Watched(look=events_look),
    "fairness": Watched(look=fairness_look, every_s=5.0),
    **_for_development(),
}
