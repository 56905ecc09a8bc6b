"""The warehouse: where data files lie, local (``file://`` or a path) or an object store (``s3://``).

The only module that touches data files by name. A file appears under its name whole or not at all: locally by a
temporary name, fsync, rename and fsync of the folder; on an object store by the upload's completion.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import crc32c
import pyarrow as pa
from pyarrow import fs

from engine.durable_file import TEMPORARY_SUFFIX, make_durable_folder, name_durably
from engine.errors import Corrupt, Invalid, Unavailable
from engine.fault_points import FaultPoint
from engine.warehouse.object_requests import KEYS_A_REQUEST, ObjectRequests

READ_PIECE_BYTES = 8 << 20

FILES_A_BATCH = KEYS_A_REQUEST
"""Removed together, wherever they lie: what was removed before a crash is at most as much as nobody wrote down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of the warehouse as a listing shows it."""

    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """Access to files by path or URI; picklable, connects where it is used.

    ``properties`` are the catalog's (``s3.endpoint``, ``s3.access-key-id``, … as pyiceberg names them).
    """

    properties: Mapping[str, str] = field(default_factory=dict)

    def open_input(self, path: str) -> pa.NativeFile:
        """A file for random reads (a local one is mapped). Raises Corrupt when it is missing, Unavailable else."""
        filesystem, inner = self._resolve(path)
        with self._errors(path):
            if isinstance(filesystem, fs.LocalFileSystem):
                if Path(inner).stat().st_size == 0:
                    return pa.BufferReader(b"")  # an empty file can't be mapped
                return pa.memory_map(inner, "r")
            return filesystem.open_input_file(inner)

    def create(self, path: str) -> NewFile:
        """Begin a file that will appear at ``path`` when it is committed."""
        filesystem, inner = self._resolve(path)
        with self._errors(path):
            if isinstance(filesystem, fs.LocalFileSystem):
                return _NewLocalFile(path, Path(inner))
            return _NewObject(path, filesystem, inner)

    def size_bytes(self, path: str) -> int:
        """Raises Corrupt when the file is missing."""
        filesystem, inner = self._resolve(path)
        with self._errors(path):
            info = filesystem.get_file_info(inner)
            if info.type != fs.FileType.File:
                raise FileNotFoundError(path)
        return int(info.size)

    def exists(self, path: str) -> bool:
        filesystem, inner = self._resolve(path)
        with self._errors(path):
            return bool(filesystem.get_file_info(inner).type == fs.FileType.File)

    def list(self, folder: str) -> Iterator[StoredFile]:
        """Every file below a folder, temporary ones too, in no order, as it is found; nothing when there is no folder.

        A file that comes or goes meanwhile may be listed or not.
        """
        filesystem, inner = self._resolve(folder)
        root = folder.rstrip("/")
        with self._errors(folder):
            if isinstance(filesystem, fs.LocalFileSystem):
                yield from _walk(Path(inner), root)
                return
            bucket, _, prefix = inner.rstrip("/").partition("/")
            for key, size_bytes, modified_ms in self._requests().list(bucket, f"{prefix}/"):
                path = f"{root}/{key.removeprefix(f'{prefix}/')}"
                yield StoredFile(path=path, size_bytes=size_bytes, modified_ms=modified_ms)

    def entries(self, folder: str) -> tuple[str, ...]:
        """The names of files and folders right in a folder, sorted; none when it does not exist."""
        filesystem, inner = self._resolve(folder)
        with self._errors(folder):
            found = filesystem.get_file_info(fs.FileSelector(inner, recursive=False, allow_not_found=True))
        return tuple(sorted(info.base_name for info in found))

    def delete(self, path: str) -> None:
        """Remove a file; one that is gone already is no error."""
        filesystem, inner = self._resolve(path)
        with self._errors(path), contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(inner)

    def delete_batch(self, paths: Sequence[str]) -> dict[str, str]:
        """Remove files of one warehouse, ``FILES_A_BATCH`` at most; those that are gone already are no error.

        What hindered each that stays, by path; Unavailable where nothing is known of any.
        """
        assert len(paths) <= FILES_A_BATCH, "a batch is one request of an object store"
        hindered: dict[str, str] = {}
        keys: dict[str, str] = {}
        for path in paths:
            filesystem, inner = self._resolve(path)
            if not isinstance(filesystem, fs.LocalFileSystem):
                keys[inner] = path
                continue
            try:
                Path(inner).unlink(missing_ok=True)
            except OSError as error:
                hindered[path] = f"{type(error).__name__}: {error}"
        for bucket in {key.partition("/")[0] for key in keys}:
            inside = [key.partition("/")[2] for key in keys if key.startswith(f"{bucket}/")]
            with self._errors(f"s3://{bucket}"):
                refused = self._requests().delete(bucket, inside)
            hindered |= {keys[f"{bucket}/{key}"]: problem for key, problem in refused.items()}
        return hindered

    def remove_empty_folders(self, root: str, *, unchanged_since_ms: int) -> None:
        """Remove the folders below a local one that are empty and were last changed before ``unchanged_since_ms``.

        An object store has none. Whoever is about to write into one makes it again.
        """
        filesystem, inner = self._resolve(root)
        if not isinstance(filesystem, fs.LocalFileSystem):
            return
        for folder, _, _ in os.walk(inner, topdown=False):
            # Not empty, changed just now, or gone: it stays as it is.
            with contextlib.suppress(OSError):
                if folder != inner and Path(folder).stat().st_mtime_ns // 1_000_000 < unchanged_since_ms:
                    Path(folder).rmdir()

    def read_bytes(self, path: str) -> bytes:
        """A small file whole. Raises Corrupt when it is missing."""
        with self.open_input(path) as file, self._errors(path):
            content: bytes = file.read()
            return content

    def crc32c(self, path: str) -> int:
        """CRC-32C of a file's bytes. Raises Corrupt when it is missing."""
        checksum = 0
        with self.open_input(path) as file, self._errors(path):
            while piece := file.read(READ_PIECE_BYTES):
                checksum = int(crc32c.crc32c(piece, checksum))
        return checksum

    def write_bytes(self, path: str, content: bytes) -> None:
        """Put a small file under its name, whole and durable."""
        with self.create(path) as new:
            new.write(content)
            new.commit()

    def _errors(self, path: str) -> contextlib.AbstractContextManager[None]:
        return _errors(path, self._is_away)

    def _is_away(self) -> bool:
        root = urlparse(self.properties.get("warehouse", ""))
        return bool(root.path) and root.scheme in {"", "file"} and not Path(root.path).exists()

    def _resolve(self, path: str) -> tuple[fs.FileSystem, str]:
        parsed = urlparse(path)
        if parsed.scheme in {"", "file"}:
            return _local(), parsed.path if parsed.scheme else path
        if parsed.scheme in {"s3", "s3a", "s3n"}:
            return _object_store(self._settings), f"{parsed.netloc}{parsed.path}"
        raise Invalid(f"a warehouse is file:// or s3://, not {parsed.scheme}://", file=path)

    @property
    def _settings(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((key, value) for key, value in self.properties.items() if key.startswith("s3.")))

    def _requests(self) -> ObjectRequests:
        return _object_requests(self._settings)


class NewFile:
    """A file being written: not there until ``commit``. Leaving the ``with`` block without it leaves nothing behind.

    ``size_bytes`` and ``checksum`` (CRC-32C) are those of the bytes written so far.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0
        self.checksum = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes (anything with a buffer)."""
        view = memoryview(data)
        with _errors(self.path):
            self._write(view)
        self.checksum = crc32c.crc32c(view, self.checksum)
        self.size_bytes += view.nbytes
        return view.nbytes

    def commit(self) -> None:
        """Make the file appear under its name, durable."""
        with _errors(self.path):
            self._commit()
        self.closed = True

    def abort(self) -> None:
        """Drop what was written. May be called after anything."""
        if not self.closed:
            self.closed = True
            with contextlib.suppress(OSError):
                self._abort()

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _write(self, view: memoryview) -> None:
        raise NotImplementedError

    def _commit(self) -> None:
        raise NotImplementedError

    def _abort(self) -> None:
        raise NotImplementedError


class _NewLocalFile(NewFile):
    def __init__(self, path: str, target: Path) -> None:
        super().__init__(path)
        self._target = target
        self._temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
        make_durable_folder(target.parent)
        try:
            self._file = self._temporary.open("wb", buffering=0)
        except FileNotFoundError:
            # The folder was an old empty one, and somebody removed it in between: it is not old any more.
            make_durable_folder(target.parent)
            self._file = self._temporary.open("wb", buffering=0)

    def _write(self, view: memoryview) -> None:
        rest = view.cast("B")
        while rest:
            rest = rest[self._file.write(rest) :]

    def _commit(self) -> None:
        name_durably(
            self._file,
            self._temporary,
            self._target,
            synced=FaultPoint.FILE_SYNCED,
            named=FaultPoint.FILE_RENAMED,
        )

    def _abort(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


class _NewObject(NewFile):
    def __init__(self, path: str, filesystem: fs.FileSystem, key: str) -> None:
        super().__init__(path)
        self._filesystem = filesystem
        self._key = key
        self._stream = filesystem.open_output_stream(key)

    def _write(self, view: memoryview) -> None:
        self._stream.write(view)

    def _commit(self) -> None:
        self._stream.close()

    def _abort(self) -> None:
        # Arrow's stream can only be closed, which completes the upload: the object is taken away right after. Its
        # name, with an attempt id in it, was never told to anybody.
        try:
            self._stream.close()
        finally:
            self._filesystem.delete_file(self._key)


@lru_cache(maxsize=1)
def _local() -> fs.LocalFileSystem:
    return fs.LocalFileSystem()


@lru_cache(maxsize=8)
def _object_store(settings: tuple[tuple[str, str], ...]) -> fs.S3FileSystem:
    given = dict(settings)
    endpoint = given.get("s3.endpoint")
    return fs.S3FileSystem(
        access_key=given.get("s3.access-key-id"),
        secret_key=given.get("s3.secret-access-key"),
        session_token=given.get("s3.session-token"),
        region=given.get("s3.region"),
        endpoint_override=endpoint,
        force_virtual_addressing=given.get("s3.force-virtual-addressing", "false").lower() == "true",
    )


@lru_cache(maxsize=8)
def _object_requests(settings: tuple[tuple[str, str], ...]) -> ObjectRequests:
    return ObjectRequests(dict(settings))


def _walk(folder: Path, root: str) -> Iterator[StoredFile]:
    """The files below a local folder, a folder at a time; ``root`` is how its path is to begin."""
    waiting = [(folder, root)]
    while waiting:
        inside, path = waiting.pop()
        with contextlib.suppress(FileNotFoundError), os.scandir(inside) as entries:  # gone since it was named
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{path}/{entry.name}"))
                    continue
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat()
                    yield StoredFile(
                        path=f"{path}/{entry.name}",
                        size_bytes=found.st_size,
                        modified_ms=found.st_mtime_ns // 1_000_000,
                    )


@contextlib.contextmanager
def _errors(path: str, is_away: Callable[[], bool] = bool) -> Iterator[None]:
    """Translate the file system's errors: a file whose name was given to us and that is missing is damage, unless the
    whole warehouse ``is_away``; anything else may pass."""
    try:
        yield
    except FileNotFoundError as error:
        if is_away():
            raise Unavailable("the warehouse's folder is not there: is it mounted?", file=path) from error
        raise Corrupt("a file is missing from the warehouse", file=path) from error
    except OSError as error:
        raise Unavailable(f"the warehouse does not answer: {error}", file=path) from error
