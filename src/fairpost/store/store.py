"""The only typed interface to the database. It has one part for each type of object. The store makes no decisions.

Every method makes one round trip and one commit. `now` is for tests and simulations; by default, the database's clock
applies.
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
    """The complete store."""
