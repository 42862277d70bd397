"""What becomes of an e-mail in doubt when nobody looks: its own policy decides, once, whoever notices first."""

from fairpost.model.ids import AccountId
from fairpost.model.states import DoubtPolicy
from fairpost.policy.retries import retry_delay
from fairpost.postgres.store import Store
from fairpost.system import chance, clock


async def resolve_doubts(store: Store, account_id: AccountId) -> None:
    """`resend` waits as after any failed attempt; `hold`, or no attempt left, is left to people."""
    for email in await store.doubts(account_id):
        if email.on_doubt is DoubtPolicy.RESEND and email.attempts < email.attempts_max:
            delay = retry_delay(email.email_class, attempts=email.attempts, roll=chance.roll())
            await store.resolve(email.id, "resend", by="policy", due_at=clock.now() + delay)
