"""What an engine does, in this process: what waits goes out to the server of an account."""

from fairpost.deliver.runner import Handled, Runner
from fairpost.model.ids import AccountId
from fairpost.postgres.store import Store
from fairpost.transport.factory import server_of, smtp_settings
from fairpost.transport.smtp import SmtpTransport


async def send(store: Store, account: AccountId, *, most: int | None = None) -> int:
    """All that may go out now, or the first few. Gives how many that were."""
    transport = SmtpTransport(server_of(smtp_settings(await store.account(account))))
    runner = await Runner.start(store, transport, account, owner="a test")
    assert runner is not None
    sent = 0
    while sent != most and isinstance(await runner.step(), Handled):
        sent += 1
    await runner.stop()
    await transport.close()
    return sent
