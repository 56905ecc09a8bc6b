"""Kafka's codecs, both directions: gzip, snappy (xerial framing or raw), LZ4 frames, zstd.

Sources: Kafka's ``CompressionType``; KIP-57 (LZ4 frames of independent blocks); snappy-java's ``SnappyOutputStream``
(the framing); KIP-110 (zstd).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import cramjam
import numpy as np
import zstandard
from numpy.typing import NDArray

Bytes = bytes | bytearray | memoryview

# snappy-java's header: 0x82 "SNAPPY" 0, then its version and the oldest version that reads it, both 1.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_CHUNK_BYTES: Final = 32 << 10
_CHUNK_SIZE: Final = struct.Struct(">i")
# A consumer waits while this is done, so the fast levels; 3 is zstd's and Kafka's default.
_ZSTD_LEVEL: Final = 3
_GZIP_LEVEL: Final = 1
_LZ4_LEVEL: Final = 1
# What Rust's Write::write_all says when the target slice is full; a test holds cramjam to it.
_TARGET_FULL_MESSAGE: Final = "failed to write whole buffer"


class Compression(IntEnum):
    """The codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressError(Exception):
    """The bytes are not what the codec's name promises; the caller adds the coordinates."""


class TargetFull(Exception):
    """The decompressed bytes do not fit; the target's content is undefined. A larger target may hold them."""


class Decompressor:
    """Decompresses batch after batch with contexts that are set up once. Not for use by two threads at a time."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def decompress_into(self, compression: Compression, source: memoryview, target: NDArray[np.uint8]) -> int:
        """Write the decompressed bytes to the front of ``target`` and return how many they are.

        Errors: DecompressError, TargetFull (also when the result would fill ``target`` to its last byte).
        """
        if len(target) == 0:
            raise TargetFull
        try:
            if compression is Compression.ZSTD:
                written = self._zstd_into(source, target)
            elif compression is Compression.LZ4:
                written = cramjam.lz4.decompress_into(source, target.data)
            elif compression is Compression.SNAPPY:
                written = _snappy_into(source, target)
            elif compression is Compression.GZIP:
                written = cramjam.gzip.decompress_into(source, target.data)
            else:
                written = _copy_into(source, target)
        except cramjam.DecompressionError as error:
            if _TARGET_FULL_MESSAGE in str(error):
                raise TargetFull from error
            raise DecompressError(f"{compression.name.lower()}: {error}") from error
        except zstandard.ZstdError as error:
            raise DecompressError(f"zstd: {error}") from error
        if written >= len(target):
            raise TargetFull
        return int(written)

    def _zstd_into(self, source: memoryview, target: NDArray[np.uint8]) -> int:
        # Kafka's own reader goes across frames too. A frame cut short ends the stream without an error here;
        # the record scan then misses its records.
        with self._zstd.stream_reader(source, read_across_frames=True) as reader:
            return reader.readinto(target.data)


def _copy_into(source: memoryview, target: NDArray[np.uint8]) -> int:
    if len(source) >= len(target):
        raise TargetFull
    target[: len(source)] = np.frombuffer(source, np.uint8)
    return len(source)


def _snappy_into(source: memoryview, target: NDArray[np.uint8]) -> int:
    """Both forms that snappy-java's reader takes: its own framing, and one raw block where the magic is missing."""
    if bytes(source[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block_into(source, target)
    at = len(_XERIAL_HEADER)
    written = 0
    while at < len(source):
        # Two framed streams, one after the other, have a second header where a chunk's size would be.
        if bytes(source[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            continue
        if at + _CHUNK_SIZE.size > len(source):
            raise DecompressError("snappy: the last chunk's size is cut short")
        (size,) = _CHUNK_SIZE.unpack_from(source, at)
        at += _CHUNK_SIZE.size
        if size < 0 or at + size > len(source):
            raise DecompressError(f"snappy: a chunk of {size} bytes does not fit the remaining {len(source) - at}")
        written += _snappy_block_into(source[at : at + size], target[written:])
        at += size
    return written


def _snappy_block_into(block: memoryview, target: NDArray[np.uint8]) -> int:
    size = cramjam.snappy.decompress_raw_len(block)
    # A snappy copy of at most 64 bytes takes 2: a block can't be 32 times what it came from, whatever it claims.
    if size > 32 * len(block):
        raise DecompressError(f"snappy: a block of {len(block)} bytes claims {size}")
    if size > len(target):
        raise TargetFull
    if size == 0:
        return 0
    return int(cramjam.snappy.decompress_raw_into(block, target[:size].data))


class Compressor:
    """Compresses batch after batch as Kafka's clients would. Not for use by two threads at a time."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._zstd = zstandard.ZstdCompressor(level=_ZSTD_LEVEL) if compression is Compression.ZSTD else None

    def compress(self, body: Bytes) -> bytes:
        """``body`` as it stands after a batch header."""
        if self._zstd is not None:
            return self._zstd.compress(body)
        if self._compression is Compression.LZ4:
            # Kafka's reader refuses frames whose blocks depend on each other (KIP-57), which is the usual form.
            frame = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
            frame.compress(bytes(body))
            return bytes(frame.finish())
        if self._compression is Compression.SNAPPY:
            return _xerial(memoryview(body))
        if self._compression is Compression.GZIP:
            return bytes(cramjam.gzip.compress(body, level=_GZIP_LEVEL))
        return bytes(body)


def _xerial(body: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for at in range(0, len(body), _XERIAL_CHUNK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(body[at : at + _XERIAL_CHUNK_BYTES]))
        parts += (_CHUNK_SIZE.pack(len(block)), block)
    return b"".join(parts)
