"""The seal over a snapshot's manifests: what their bytes were when Floeberg committed.

A manifest list names manifests by path and length and has no checksum of them. The seal has one of the list's bytes
and, over all manifests, the sum of a 64-bit hash of each: a commit adds what it wrote and takes away what it left out,
and reads no manifest that was there before. The sum says *that* one differs; *which* one is told by the snapshot that
added it, as long as the table keeps that: its summary has the checksums of the manifests it wrote. ``ChecksumIO``
is the file access of one commit, or of one look at a snapshot, that notes what every metadata file is.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self

import crc32c
from pyiceberg.io import FileIO, InputFile, OutputFile

from engine.errors import Corrupt

MANIFESTS_SUMMARY = "floeberg.manifests"
"""In a snapshot's summary: CRC-32C of each manifest that the snapshot wrote, by the number in the manifest's name."""

SUM_BYTES = 8
_NUMBER = re.compile(r"-m(\d+)\.avro$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDigest:
    """The bytes of one manifest or manifest list."""

    size_bytes: int
    crc32c: int

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(size_bytes=len(content), crc32c=int(crc32c.crc32c(content)))

    def hashed(self, path: str) -> int:
        """The manifest's part in the sum."""
        named = f"{path}\n{self.size_bytes}\n{self.crc32c:08x}".encode()
        return int.from_bytes(blake2b(named, digest_size=SUM_BYTES).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSeal:
    """``list_crc32c`` of the manifest list's bytes; ``total`` the sum of the ``count`` manifests' hashes."""

    list_crc32c: int
    total: int
    count: int

    def to_json(self) -> dict[str, Any]:
        return {"list": f"{self.list_crc32c:08x}", "sum": f"{self.total:016x}", "count": self.count}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError."""
        return cls(list_crc32c=int(value["list"], 16), total=int(value["sum"], 16), count=int(value["count"]))


def sum_of(hashes: Iterable[int]) -> int:
    """Of hashes, in any order."""
    return sum(hashes) % (1 << 8 * SUM_BYTES)


def told_checksums(written: Mapping[str, ManifestDigest]) -> dict[str, str]:
    """What a snapshot's summary says of the manifests it wrote, given by path."""
    numbered = {number: digest for path, digest in written.items() if (number := _number(path)) is not None}
    if not numbered:
        return {}
    return {MANIFESTS_SUMMARY: " ".join(f"{number}:{numbered[number].crc32c:08x}" for number in sorted(numbered))}


def is_as_told(summary: Mapping[str, str], path: str, digest: ManifestDigest) -> bool | None:
    """Whether a manifest is what the summary of the snapshot that wrote it says; None where that says nothing."""
    expected = _told(summary).get(str(_number(path)))
    return None if expected is None else expected == f"{digest.crc32c:08x}"


def is_told(summary: Mapping[str, str], path: str) -> bool:
    """Whether the summary of the snapshot that added a manifest tells of it: Floeberg wrote it."""
    return str(_number(path)) in _told(summary)


def _told(summary: Mapping[str, str]) -> dict[str, str]:
    return dict(part.partition(":")[::2] for part in summary.get(MANIFESTS_SUMMARY, "").split())


def _number(path: str) -> int | None:
    found = _NUMBER.search(path)
    return None if found is None else int(found[1])


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


def changed_among(manifests: int, manifest_list: str, *, topic: str | None = None) -> Corrupt:
    """The same of one of a list's manifests, where no snapshot tells any more which one it is."""
    return changed(
        manifest_list, f"one of {manifests} manifests that this list names is not what Floeberg wrote", topic=topic
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
