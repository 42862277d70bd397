"""The one typed door to the database. Stores and reads; decides nothing. Put together from a part for each noun.

Every method is one round trip and one commit. `now` is for tests and simulations: without it the database's own
clock counts.
"""

from fairpost.store.accounts import AccountStore
from fairpost.store.claims import ClaimStore
from fairpost.store.doubts import DoubtStore
from fairpost.store.emails import EmailStore
from fairpost.store.engines import EngineStore
from fairpost.store.leases import LeaseStore
from fairpost.store.nodes import NodeStore
from fairpost.store.outgoing import OutgoingStore
from fairpost.store.steps import StepStore


class Store(
    AccountStore, LeaseStore, ClaimStore, NodeStore, EmailStore, DoubtStore, OutgoingStore, StepStore, EngineStore
):
    """Everything that is kept."""
