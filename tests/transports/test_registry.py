"""The registry: kinds are imported when they are needed, and before an engine forks its workers."""

import subprocess
import sys

from fairpost.transports.registry import KINDS, kind_named, kinds

WORKERS = """
import asyncio, sys
from fairpost.model.account import Account, AccountStatus, Limits, Usage
from fairpost.model.ids import AccountId
from fairpost.startup import engine
from fairpost.transports.gmail.settings import GmailSettings
from fairpost.transports.oauth.settings import OauthKind, OauthSettings
from fairpost.transports.registry import kind_of, preload
from fairpost.transports.smtp.settings import SmtpSettings

oauth = OauthSettings(kind=OauthKind.GOOGLE_PERSON, client_id="c")
account = Account(id=AccountId(1), name="a", address="a@b.test", display_name=None, pool="p", status=AccountStatus.ACTIVE,
                  status_reason=None, limits=Limits(), usage=Usage())
smtp = SmtpSettings(host="h", port=25, user="u")
servers = (smtp, SmtpSettings(host="h", port=25, user="u", oauth=oauth), GmailSettings(oauth=oauth))


async def make():
    for server in servers:
        kind_of(server).transport(account, server, "secret", guard=None)


preload()
before = set(sys.modules)
asyncio.run(make())
print(*sorted(set(sys.modules) - before))
"""


def test_every_kind_has_the_name_of_its_line() -> None:
    assert [kind.name for kind in kinds()] == list(KINDS)
    assert all(kind_named(kind.name) is kind for kind in kinds())


def test_once_all_is_loaded_a_worker_imports_nothing_to_send() -> None:
    done = subprocess.run([sys.executable, "-c", WORKERS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
