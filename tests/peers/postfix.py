"""A complete Postfix in a room: master, smtpd, queue manager, and delivery to a maildir or to a next hop."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath

from tests.peers.certificates import Certificate
from tests.peers.dovecot import Login, run_auth_server
from tests.peers.fetch import Software, require
from tests.peers.process import HOST, free_port
from tests.peers.received import Server
from tests.peers.room import CERT, HOSTNAME, KEEPER, KEY, MAILDIR, Room, room_for

LOG = "/var/log/maillog"
QUEUE = "/var/spool/postfix"
QUEUE_FOLDERS = (
    "active",
    "bounce",
    "corrupt",
    "defer",
    "deferred",
    "flush",
    "hold",
    "incoming",
    "private",
    "saved",
    "trace",
)

SERVICES = """\
pickup    unix       n - n 60    1 pickup
cleanup   unix       n - n -     0 cleanup
qmgr      unix       n - n 300   1 qmgr
tlsmgr    unix       - - n 1000? 1 tlsmgr
rewrite   unix       - - n -     - trivial-rewrite
bounce    unix       - - n -     0 bounce
defer     unix       - - n -     0 bounce
trace     unix       - - n -     0 bounce
verify    unix       - - n -     1 verify
flush     unix       n - n 1000? 0 flush
proxymap  unix       - - n -     - proxymap
smtp      unix       - - n -     - smtp
error     unix       - - n -     - error
retry     unix       - - n -     - error
discard   unix       - - n -     - discard
virtual   unix       - n n -     - virtual
anvil     unix       - - n -     1 anvil
scache    unix       - - n -     1 scache
postlog   unix-dgram n - n -     1 postlogd
"""


@contextmanager
def postfix(
    *,
    tls: Certificate | None = None,
    login: Login | None = None,
    relay_to: tuple[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    dns: str | None = None,
    proxied_port: int | None = None,
) -> Iterator[Server]:
    """If a login is given, no other client may send. `settings` override ours in main.cf: {"message_size_limit":
    "1000"}.

    `dns` is the server that resolves names. It also listens on `proxied_port`, behind the PROXY protocol.
    """
    software = require("postfix")
    port, tls_port = free_port(), free_port() if tls else None
    with ExitStack() as stack:
        room = stack.enter_context(room_for(software))
        auth_port = stack.enter_context(run_auth_server(login)) if login else None
        _make_folders(room)
        if dns:
            room.resolve_by(dns)
        if tls:
            room.certificate(tls)
        chosen = _main(room, software) | _delivery(relay_to) | _tls(tls) | _auth(auth_port) | dict(settings or {})
        room.write("/etc/postfix/main.cf", "".join(f"{name} = {value}\n" for name, value in chosen.items()))
        room.write("/etc/postfix/master.cf", _listeners(port, tls_port, proxied_port) + SERVICES)
        command = [room.software(software.program("master")), "-i", "-c", "/etc/postfix"]
        yield stack.enter_context(room.serving(command, port=port, tls_port=tls_port, log=LOG))


def _make_folders(room: Room) -> None:
    room.folder(QUEUE)
    for name in QUEUE_FOLDERS:
        room.folder(f"{QUEUE}/{name}", owner="postfix", mode=0o700)
    room.folder(f"{QUEUE}/pid")
    room.folder(f"{QUEUE}/public", owner="postfix", group="postdrop", mode=0o710)
    room.folder(f"{QUEUE}/maildrop", owner="postfix", group="postdrop", mode=0o1730)
    room.folder("/var/lib/postfix", owner="postfix", mode=0o700)


def _main(room: Room, software: Software) -> dict[str, str]:
    return {
        "compatibility_level": "3.6",
        "daemon_directory": str(PurePosixPath(room.software(software.program("master"))).parent),
        "command_directory": str(PurePosixPath(room.software(software.program("postconf"))).parent),
        "queue_directory": QUEUE,
        "data_directory": "/var/lib/postfix",
        "mail_owner": "postfix",
        "setgid_group": "postdrop",
        "maillog_file": LOG,
        # Otherwise, master hides it from its children, which then do not find their libraries.
        "import_environment": "MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C POSTLOG_SERVICE LD_LIBRARY_PATH",
        "myhostname": HOSTNAME,
        "mydestination": "",
        "inet_interfaces": HOST,
        "inet_protocols": "ipv4",
        "mynetworks": "127.0.0.0/8",
        "smtpd_relay_restrictions": "permit_mynetworks, reject",
        "smtpd_peername_lookup": "no",
        "smtp_dns_support_level": "disabled",
        "smtp_host_lookup": "native",
        "alias_maps": "",
        "alias_database": "",
        "default_process_limit": "200",
        # Tests connect as often and as fast as they like, and fail on purpose.
        "smtpd_client_connection_count_limit": "0",
        "in_flow_delay": "0",
        "smtpd_error_sleep_time": "0",
        "smtpd_hard_error_limit": "1000",
    }


def _delivery(relay_to: tuple[str, int] | None) -> dict[str, str]:
    if relay_to:
        return {"relayhost": f"[{relay_to[0]}]:{relay_to[1]}"}
    base, _, name = MAILDIR.rpartition("/")
    return {
        "default_transport": "virtual",
        "virtual_mailbox_base": base,
        "virtual_mailbox_maps": f"static:{name}/",
        "virtual_uid_maps": f"static:{KEEPER}",
        "virtual_gid_maps": f"static:{KEEPER}",
    }


def _tls(tls: Certificate | None) -> dict[str, str]:
    if not tls:
        return {}
    return {"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": CERT, "smtpd_tls_key_file": KEY}


def _auth(port: int | None) -> dict[str, str]:
    if port is None:
        return {}
    return {
        "smtpd_sasl_auth_enable": "yes",
        "smtpd_sasl_type": "dovecot",
        "smtpd_sasl_path": f"inet:{HOST}:{port}",
        "smtpd_relay_restrictions": "permit_sasl_authenticated, reject",
    }


def _listeners(port: int, tls_port: int | None, proxied_port: int | None = None) -> str:
    options = {
        port: "",
        tls_port: "-o smtpd_tls_wrappermode=yes",
        proxied_port: "-o smtpd_upstream_proxy_protocol=haproxy",
    }
    return "".join(f"{HOST}:{each} inet n - n - - smtpd {more}\n" for each, more in options.items() if each)
