"""Does an engine's work in this process: sends waiting e-mails to the server of an account."""

from fairpost.engine.results import Handled
from fairpost.engine.runner import Runner
from fairpost.model.ids import AccountId
from fairpost.store.store import Store
from fairpost.transports.smtp.login import server_of
from fairpost.transports.smtp.send import SmtpTransport
from fairpost.transports.smtp.settings import SmtpSettings


async def send(store: Store, account: AccountId, *, most: int | None = None) -> int:
    """Sends everything that may be sent now, or the first few. Returns how many."""
    settings = (await store.account(account)).transport
    assert isinstance(settings, SmtpSettings)
    transport = SmtpTransport(server_of(settings))
    runner = await Runner.start(store, transport, account, owner="a test")
    assert runner is not None
    sent = 0
    while sent != most and isinstance(await runner.step(), Handled):
        sent += 1
    await runner.stop()
    await transport.close()
    return sent
