"""A PgBouncer whose server can be replaced while clients are connected. The one for all other tests is in
tests/peers/pgbouncer.py."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from fairpost.store.binaries import find_binaries
from fairpost.store.embedded import server_environment
from fairpost.store.identity import choose_identity
from tests.peers.fetch import require

PORT = 6432

CONFIGURATION = """
[databases]
{name} = host={host} port={server_port} user={user}
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
"""


class Bouncer:
    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self.ini = folder / "pgbouncer.ini"
        self._user, self._name = urlsplit(url).username, urlsplit(url).path.lstrip("/")
        self.url = f"postgresql://{self._user}@/{self._name}?host={folder}&port={PORT}"
        self.lead_to(url)

    def lead_to(self, url: str) -> None:
        """Points it at that server, which takes effect with RELOAD."""
        options = parse_qs(urlsplit(url).query)
        self.ini.write_text(
            CONFIGURATION.format(
                name=self._name,
                host=options["host"][0],
                server_port=options.get("port", ["5432"])[0],
                user=self._user,
                port=PORT,
                folder=self._folder,
            )
        )

    def order(self, command: str) -> None:
        """PAUSE returns once no transaction is open."""
        where = ["-h", str(self._folder), "-p", str(PORT), "-U", str(self._user), "pgbouncer"]
        done = subprocess.run(
            [str(find_binaries().directory / "psql"), *where, "-c", command],
            env=server_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@contextmanager
def bouncer(url: str, data_dir: Path) -> Iterator[Bouncer]:
    """It refuses to run as root, like PostgreSQL, and the same workaround applies."""
    program = require("pgbouncer")
    with tempfile.TemporaryDirectory(prefix="fpb") as folder:
        made = Bouncer(Path(folder), url)
        identity = choose_identity(data_dir.parent, data_dir)
        command = [*identity.prefix, str(program.root / program.program("pgbouncer")), "-q", str(made.ini)]
        process = subprocess.Popen(command, env=program.environment(), stderr=subprocess.DEVNULL)
        try:
            yield made
        finally:
            process.terminate()
            process.wait()
