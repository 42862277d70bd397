"""An Exim daemon in a room, delivering to a maildir or to a next hop."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.peers.certificates import Certificate
from tests.peers.dovecot import Login
from tests.peers.fetch import require
from tests.peers.process import HOST, free_port
from tests.peers.received import Server
from tests.peers.room import CERT, HOSTNAME, KEY, MAILDIR, room_for

# Where Exim looks for its configuration: with -C, it would drop root and could not deliver.
CONFIGS = ("/etc/exim4/exim4.conf", "/etc/exim/exim.conf", "/etc/mail/exim.conf")
OWNER = "Debian-exim"
SPOOL, LOGS = "/var/spool/exim4", "/var/log/exim4"
LOG = f"{LOGS}/mainlog"

MAIN = """\
primary_hostname = {hostname}
exim_user = {owner}
exim_group = {owner}
exim_path = {program}
spool_directory = {spool}
log_file_path = {logs}/%slog
local_interfaces = {interfaces}
keep_environment = LD_LIBRARY_PATH
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 0
smtp_accept_max_per_connection = 0
smtp_accept_queue_per_connection = 0
smtp_connect_backlog = 1024
smtp_enforce_sync = true
pipelining_advertise_hosts = *
auth_advertise_hosts = *
acl_smtp_rcpt = check_rcpt
acl_smtp_data = accept
never_users =
# Delivers as itself and not as root, which it could become only as a set-user-id program.
deliver_drop_privilege = true
"""

TLS = """\
tls_advertise_hosts = *
tls_certificate = {cert}
tls_privatekey = {key}
tls_on_connect_ports = {tls_port}
"""

ROUTERS = """\
begin retry
* * F,1d,1m
begin routers
all:
  driver = {router}
  transport = out
begin transports
out:
"""

TO_ONE_HOST = """\
manualroute
  route_list = * {host}
  self = send
"""

TO_MAILDIR = """\
  driver = appendfile
  directory = {maildir}
  maildir_format
  create_directory = false
  delivery_date_add
  envelope_to_add
  return_path_add
"""

TO_NEXT_HOP = """\
  driver = smtp
  port = {port}
  allow_localhost
"""

AUTHENTICATORS = """\
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and {{{{eq{{$auth2}}{{{username}}}}}{{eq{{$auth3}}{{{password}}}}}}}}}
  server_set_id = $auth2
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = Username:: : Password::
  server_condition = ${{if and {{{{eq{{$auth1}}{{{username}}}}}{{eq{{$auth2}}{{{password}}}}}}}}}
  server_set_id = $auth1
"""


@contextmanager
def exim(
    *,
    tls: Certificate | None = None,
    login: Login | None = None,
    relay_to: tuple[str, int] | None = None,
    settings: str = "",
) -> Iterator[Server]:
    """With a login, no other client may send. `settings` are lines of Exim's main part: "message_size_limit = 1000"."""
    software = require("exim")
    port, tls_port = free_port(), free_port() if tls else None
    with room_for(software) as room:
        room.folder(SPOOL, owner=OWNER, mode=0o750)
        room.folder(LOGS, owner=OWNER, mode=0o750)
        room.maildir(owner=OWNER)
        if tls:
            room.certificate(tls, reader=OWNER)
        program = room.software(software.programs[0])
        config = _config(program, port, tls_port, login, relay_to, settings)
        for path in CONFIGS:
            room.write(path, config)
        with room.serving([program, "-bdf", "-q30m"], port=port, tls_port=tls_port, log=LOG) as server:
            yield server


def _config(
    program: str,
    port: int,
    tls_port: int | None,
    login: Login | None,
    relay_to: tuple[str, int] | None,
    settings: str,
) -> str:
    interfaces = "<; " + " ; ".join(f"[{HOST}]:{each}" for each in (port, tls_port) if each)
    return "\n".join(
        [
            MAIN.format(hostname=HOSTNAME, owner=OWNER, program=program, spool=SPOOL, logs=LOGS, interfaces=interfaces),
            TLS.format(cert=CERT, key=KEY, tls_port=tls_port) if tls_port else "tls_advertise_hosts =",
            settings,
            "begin acl",
            "check_rcpt:",
            "  accept authenticated = *\n  deny message = authentication required" if login else "  accept",
            ROUTERS.format(router=TO_ONE_HOST.format(host=relay_to[0]) if relay_to else "accept"),
            TO_NEXT_HOP.format(port=relay_to[1]) if relay_to else TO_MAILDIR.format(maildir=MAILDIR),
            AUTHENTICATORS.format(username=login.username, password=login.password) if login else "",
        ]
    )
