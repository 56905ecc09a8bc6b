"""Faults of the machine under a program, made by the kernel itself: they need no rights and no disk of their own."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


@contextmanager
def no_room_for_files_over(size_bytes: int) -> Iterator[None]:
    """Writes past ``size_bytes`` of any file fail in this process, as on a full disk: the last one is cut short."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores SIGXFSZ, so that the write fails (EFBIG) and the process lives.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def file_handles_left(count: int) -> Iterator[None]:
    """This process can open ``count`` files more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        highest = max(int(handle.name) for handle in Path("/proc/self/fd").iterdir())
        # Every number below the limit must be in use: the limit is on the number, not on how many there are.
        while True:
            handle = os.open("/dev/null", os.O_RDONLY)
            held.callback(os.close, handle)
            if handle > highest:
                break
        resource.setrlimit(resource.RLIMIT_NOFILE, (handle + 1 + count, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def full_disk_at(path: Path) -> Iterator[None]:
    """A file opened at ``path`` takes no byte (ENOSPC)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """``path`` has other permissions, which bind this thread even where it is the superuser's."""
    before = path.stat().st_mode & 0o7777
    path.chmod(bits)
    try:
        with _bound_by_permissions():
            yield
    finally:
        path.chmod(before)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def _bound_by_permissions() -> Iterator[None]:
    """The calling thread puts aside the superuser's right to pass over permissions (capabilities(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = _Header(version=_CAPABILITY_VERSION_3, pid=0)
    before = (_Sets * 2)()
    _check(libc.capget(ctypes.byref(header), before))
    reduced = (_Sets * 2)()
    ctypes.memmove(reduced, before, ctypes.sizeof(before))
    reduced[0].effective &= ~(1 << _CAP_DAC_OVERRIDE | 1 << _CAP_DAC_READ_SEARCH)
    _check(libc.capset(ctypes.byref(header), reduced))
    try:
        yield
    finally:
        _check(libc.capset(ctypes.byref(header), before))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
