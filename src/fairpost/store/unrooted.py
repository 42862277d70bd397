"""Run one command as a user that PostgreSQL accepts, because PostgreSQL refuses to run as root.

    python unrooted.py namespace COMMAND ARGUMENT…    files remain ours, but the command runs as `nobody`
    python unrooted.py UID:GID   COMMAND ARGUMENT…    actually become that user

This is a separate program that uses only the standard library, because unshare() needs a process without threads, which
the caller cannot guarantee. identity.py decides which user the server runs as.
"""

import ctypes
import os
import pwd
import sys

CLONE_NEWUSER = 0x10000000
OVERFLOW_ID = 65534


def main(arguments: list[str]) -> None:
    identity, *command = arguments
    if identity == "namespace":
        enter_user_namespace(alias=unprivileged_id())
    else:
        uid, gid = map(int, identity.split(":"))
        become(uid=uid, gid=gid)
    os.execv(command[0], command)  # noqa: S606


def enter_user_namespace(*, alias: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    write("/proc/self/setgroups", "deny")  # the kernel accepts a gid_map only after this
    write("/proc/self/uid_map", f"{alias} {uid} 1")
    write("/proc/self/gid_map", f"{OVERFLOW_ID} {gid} 1")


def become(*, uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def unprivileged_id() -> int:
    """Return the user ID that the command appears to run as. initdb requires a user ID that has a name."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return OVERFLOW_ID


def unshare(flags: int) -> None:
    if hasattr(os, "unshare"):  # Python 3.12
        os.unshare(flags)
    elif ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
