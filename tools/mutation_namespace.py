# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keeps what a mutant does to processes and mounts away from the machine: pid_namespaces(7), mount_namespaces(7).

A change of the agent may become kill(-1) or a mount, and tests may run as root.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 1 << 17, 1 << 28, 1 << 29  # unshare(2)
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18  # mount(2)
_PR_SET_PDEATHSIG = 1
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3, capset(2)


def enter() -> None:
    """Continue in a child, in a PID and a mount namespace of its own; the caller itself waits for it and ends.

    The child is process 2. Process 1 reaps; when it ends, the kernel kills what is left. Users other than root need a user namespace;
    the child has no capability in that one.

    Raises:
        OSError: the machine does not allow it. It may be raised in a child: the caller must end the process, whichever it is.
    """
    library = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _check(library.unshare(_CLONE_NEWPID | _CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if first := os.fork():
        os.waitpid(first, 0)
        os._exit(0)
    library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for arguments in (
        (b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
        (b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None),
    ):
        _check(library.mount(*arguments), "mount")
    if child := os.fork():
        while os.wait()[0] != child:
            pass
        os._exit(0)
    if user:
        _check(library.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()), "capset")


def _check(result: int, call: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")


@functools.cache
def obstacle() -> str:
    """Return why `enter` does not work here; empty if it does. It is tried once; forks inherit the answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter()
            os.write(writing, b"entered")
        except OSError as error:
            os.write(writing, f"{error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    return "" if answer == "entered" else answer or "a process ended"
