"""Front ends change the database only through actions. Writers are found by their SQL, without a list."""

from tests.architecture.writers import calls_to_writers, house, room, writers

FRONT_ENDS = ("api", "cli")

# What a front end may call besides actions, and why. This list may only shrink.
ALLOWED = {
    "fairpost.store.emails.EmailStore.submit": "enqueues",
    "fairpost.store.emails.EmailStore.enqueue_many": "enqueues a test e-mail",
    "fairpost.portals.workspace.WorkspacePortals.send": "enqueues an e-mail of the product's own",
    "fairpost.store.workspaces.enter": "counts the requests of a key, and notes when it was last used",
    "fairpost.store.workspaces.take_turn": "counts requests",
    "fairpost.auth.sessions.session_of": "notes when a session was last seen",
    "fairpost.auth.signing_in.the_one_meant": "counts tries to sign in",
    "fairpost.auth.signing_in.begin_sign_in": "counts tries to sign in, and sends the code",
    "fairpost.auth.signing_in.resend_code": "counts codes, and sends one",
    "fairpost.auth.signing_in.finish_sign_in": "counts tries, and begins the session",
    "fairpost.auth.membership.first_admin_link": "made at the start, before anybody could act",
    "fairpost.auth.membership.local_operator_link": "made at the start, with an audit entry of its own",
    "fairpost.store.workspaces.mailbox_tried": "whether a login worked is evidence, and no decision",
    "fairpost.store.migrations.migrate": "lays the schema, and notes it in its own ledger",
    "fairpost.dev.inbox.mails.prune": "the development inbox keeps its newest mails",
}
ALLOWED_MAX = 15
ALLOWED_ROOMS = {
    "startup": "opens stores, which lays the schema; runs the engine and the service",
    "receive": "takes in mail that came back: evidence, and no decision",
    "dev.bench": "measures on databases of its own",
    "dev.simulate": "simulates on databases of its own",
    "dev.demo": "plays the demonstration, with workspaces of its own",
}


MORE = """
from fairpost.store.store import Store
from fairpost.vault.rotation import rotate

async def by_a_method(given: "Store"):
    await given.hold("a", "user")

async def by_what_is_opened(url):
    async with Store.open(url) as opened, opened.together() as one:
        await one.retry(1)

by_a_name = lambda store: store.cancel(1)

def by_a_module(home):
    from fairpost.store import pauses
    return pauses.resume_everything(home)

def by_a_protocol(x):
    return rotate(x)

class Command:
    async def by_sql(self, home):
        await home.value("SELECT fairpost.pause($1)")
"""


def _used(*, by_more: bool) -> dict[str, list[str]]:
    found = calls_to_writers(house(MORE), FRONT_ENDS)
    mine = {
        name: [each for each in by if each.startswith("fairpost.cli.more.") is by_more] for name, by in found.items()
    }
    return {name: by for name, by in mine.items() if by}


def test_front_ends_call_no_writer_of_the_store() -> None:
    used = _used(by_more=False)
    found = {name: by for name, by in used.items() if name not in ALLOWED and room(name) not in ALLOWED_ROOMS}
    assert found == {}, "make it an action"


def test_every_exception_is_still_needed() -> None:
    used = _used(by_more=False)
    assert sorted(set(ALLOWED) - set(used)) == []
    assert sorted(set(ALLOWED_ROOMS) - {room(name) for name in used}) == []
    assert len(ALLOWED) <= ALLOWED_MAX


def test_a_front_end_that_writes_is_found() -> None:
    assert set(_used(by_more=True)) == {
        "fairpost.store.nodes.NodeStore.hold",
        "fairpost.store.emails.EmailStore.cancel",
        "fairpost.store.emails.EmailStore.retry",
        "fairpost.store.pauses.resume_everything",
        "fairpost.vault.rotation.rotate",
        "fairpost.cli.more.Command.by_sql",
    }


def test_a_read_only_function_is_not_a_writer() -> None:
    known = set(writers(house(MORE)))
    assert {"fairpost.store.pauses.pause_everything", "fairpost.actions.senders.hold"} <= known
    reading = {
        "fairpost.store.pauses.pause_now",
        "fairpost.store.accounts.AccountStore.accounts",
        "fairpost.observe.now._at_work",
    }
    assert not reading & known
