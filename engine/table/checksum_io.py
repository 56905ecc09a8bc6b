"""pyiceberg's file access for one commit: notes the checksum of every metadata file that passes, read or written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import crc32c
from pyiceberg.io import FileIO, InputFile, OutputFile

from engine.errors import Corrupt
from engine.table.manifest_seal import ManifestDigest


class ChecksumIO(FileIO):
    """``expected`` by path: a file that was read and is not what it was is ``Corrupt`` before anything of it is used.

    ``read`` and ``written`` by path. Used by pyiceberg's threads, each with files of its own.
    """

    def __init__(self, inner: FileIO, expected: Mapping[str, int]) -> None:
        super().__init__(inner.properties)
        self._inner = inner
        self._expected = dict(expected)
        self._held: dict[str, bytes] = {}
        self.read: dict[str, ManifestDigest] = {}
        self.written: dict[str, ManifestDigest] = {}

    def new_input(self, location: str) -> InputFile:
        return _NotedInput(self, self._inner.new_input(location))

    def new_output(self, location: str) -> OutputFile:
        return _NotedOutput(self, self._inner.new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._inner.delete(location)

    def content(self, location: str) -> bytes:
        """A file whole. Raises Corrupt when it is not the expected one; OSError."""
        with self._inner.new_input(location).open() as stream:
            content = bytes(stream.read())
        digest = ManifestDigest.of(content)
        expected = self._expected.get(location)
        if expected is not None and digest.crc32c != expected:
            raise changed(location)
        self.read[location] = digest
        return content

    def hold(self, location: str) -> ManifestDigest:
        """Read a file now, for whoever opens it next. Raises as ``content``."""
        self._held[location] = self.content(location)
        return self.read[location]

    def take(self, location: str) -> bytes:
        """What is held of a file, or its content."""
        held = self._held.pop(location, None)
        return self.content(location) if held is None else held


def changed(
    path: str, problem: str = "a metadata file of the table is not what Floeberg wrote", *, topic: str | None = None
) -> Corrupt:
    """The error of a metadata file whose bytes differ from the sealed ones."""
    return Corrupt(
        problem,
        topic=topic,
        file=path,
        next_step="restore the file from a copy of the warehouse (metadata files never change), then floeberg fsck",
    )


class _Noted:
    """What an input and an output file have in common, for the library knows them by separate classes."""

    def __init__(self, noting: ChecksumIO, inner: InputFile | OutputFile) -> None:
        super().__init__(inner.location)  # type: ignore[call-arg]  # the library's class that stands after this one
        self._noting = noting
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        return bool(self._inner.exists())


class _NotedInput(_Noted, InputFile):
    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 - the library's signature
        return io.BytesIO(self._noting.take(self.location))


class _NotedOutput(_Noted, OutputFile):
    def to_input_file(self) -> InputFile:
        return self._noting.new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _NotedStream(self._noting, self.location, self._inner.create(overwrite))


class _NotedStream:
    def __init__(self, noting: ChecksumIO, location: str, inner: Any) -> None:
        self._noting = noting
        self._location = location
        self._inner = inner
        self._size_bytes = 0
        self._crc32c = 0

    def write(self, data: bytes) -> int:
        written = self._inner.write(data)
        self._crc32c = int(crc32c.crc32c(data, self._crc32c))
        self._size_bytes += len(data)
        return int(written)

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None:
        self._inner.close()
        self._noting.written[self._location] = ManifestDigest(size_bytes=self._size_bytes, crc32c=self._crc32c)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, traceback)
        self._noting.written[self._location] = ManifestDigest(size_bytes=self._size_bytes, crc32c=self._crc32c)
