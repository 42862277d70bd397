"""`fairpost domain add-key`, killed at each of its steps: it leaves no partial key, and the next run creates a complete
one."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from fairpost.settings import read_settings
from fairpost.startup.parts import vault_of
from fairpost.store import workspaces
from fairpost.store.store import Store
from fairpost.vault.dkim import public_text, read_private_key
from tests.cli.conftest import process_environment


async def test_a_killed_add_key_leaves_nothing(url: str, store: Store, tmp_path: Path) -> None:
    await workspaces.add_workspace(store, "acme")
    await workspaces.add_domain(store, "acme", "shop.test")
    environment = process_environment({"FAIRPOST_DATABASE_URL": url, "FAIRPOST_HOME": str(tmp_path / "home")})

    def add_key(**more: str) -> "subprocess.CompletedProcess[str]":
        command = "domain add-key acme shop.test --algorithm ed25519 --json"
        return subprocess.run(
            [sys.executable, "-m", "fairpost", *command.split()],
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    for point in ("after_key_made", "before_key_commit"):
        assert add_key(FAIRPOST_FAILPOINT=point).returncode == -signal.SIGKILL
        assert await store.value("SELECT count(*) FROM fairpost.dkim_keys") == 0
        assert await store.value("SELECT count(*) FROM fairpost.audit") == 0

    done = add_key()
    assert done.returncode == 0, done.stderr
    (secret,) = await store.secrets()
    private = read_private_key(vault_of(read_settings(environment)).open_secret(secret))
    assert public_text(private) in json.loads(done.stdout)["record"]["value"]
