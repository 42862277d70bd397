"""Opens a listening socket before the server that uses it starts."""

import socket


def listening(host: str, port: int, *, backlog: int) -> socket.socket:
    """Return a listening socket. Port 0 means any free port. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener
