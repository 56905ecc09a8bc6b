"""The seal over a snapshot's manifests: what their bytes were when Floeberg committed.

A manifest list names manifests by path and length and has no checksum of them. The seal has one of the list's bytes
and, over all manifests, the sum of a 64-bit hash of each: a commit adds what it wrote and takes away what it left out,
and reads no manifest that was there before. The sum says *that* one differs; *which* one is told by the snapshot that
added it, as long as the table keeps that: its summary has the checksums of the manifests it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import crc32c

MANIFESTS_SUMMARY = "floeberg.manifests"
"""In a snapshot's summary: CRC-32C of each manifest that the snapshot wrote, by the number in the manifest's name."""

_SUM_BITS = 64
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
        return int.from_bytes(blake2b(named, digest_size=_SUM_BITS // 8).digest())


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
    """Of the hashes of manifests; in any order."""
    return sum(hashes) % (1 << _SUM_BITS)


def told_checksums(written: Mapping[str, ManifestDigest]) -> dict[str, str]:
    """What a snapshot's summary says of the manifests it wrote, given by path."""
    numbered = {number: digest for path, digest in written.items() if (number := _number(path)) is not None}
    if not numbered:
        return {}
    return {MANIFESTS_SUMMARY: " ".join(f"{number}:{numbered[number].crc32c:08x}" for number in sorted(numbered))}


def is_as_told(summary: Mapping[str, str], path: str, digest: ManifestDigest) -> bool | None:
    """Whether a manifest is what the summary of the snapshot that wrote it says; None where that says nothing."""
    told = dict(part.partition(":")[::2] for part in summary.get(MANIFESTS_SUMMARY, "").split())
    expected = told.get(str(_number(path)))
    return None if expected is None else expected == f"{digest.crc32c:08x}"


def _number(path: str) -> int | None:
    found = _NUMBER.search(path)
    return None if found is None else int(found[1])
