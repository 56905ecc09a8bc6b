"""A process that ends with the one that started it, however that one ends: Linux sees to it (prctl(2), PDEATHSIG).

``python -I -S tied_process.py PARENT COMMAND…`` becomes the command, tied to the process PARENT, or with ``-`` to its
own parent. It is a program of its own, not code between fork and exec: that code may meet a lock which a thread held
at the fork. Where there is no prctl (macOS), a process whose starter is killed stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied(command: Sequence[str]) -> list[str]:
    """The same command, to be started from this process by a *thread* that lives on: the kernel counts its end."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def end_with_parent(parent: int) -> None:
    """This process is killed (SIGKILL) when ``parent``, which forked it, ends; at once if that has ended already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent(os.getppid() if sys.argv[1] == "-" else int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
