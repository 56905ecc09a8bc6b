"""The warehouse: where data files lie, local (``file://`` or a path) or an object store (``s3://``).

The only module that touches data files by name. A file appears under its name whole or not at all: locally by a
temporary name, fsync, rename and fsync of the folder; on an object store by the upload's completion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
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

READ_PIECE_BYTES = 8 << 20


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
        """Every file below a folder, temporary ones too; nothing when the folder does not exist."""
        filesystem, inner = self._resolve(folder)
        with self._errors(folder):
            found = filesystem.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
        for info in found:
            if info.type == fs.FileType.File:
                path = folder.rstrip("/") + info.path.removeprefix(inner.rstrip("/"))
                modified_ms = (info.mtime_ns or 0) // 1_000_000
                yield StoredFile(path=path, size_bytes=int(info.size), modified_ms=modified_ms)

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
            settings = tuple(sorted((key, value) for key, value in self.properties.items() if key.startswith("s3.")))
            return _object_store(settings), f"{parsed.netloc}{parsed.path}"
        raise Invalid(f"a warehouse is file:// or s3://, not {parsed.scheme}://", file=path)


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
