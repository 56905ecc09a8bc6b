from __future__ import annotations

import gzip
import struct

import cramjam
import numpy as np
import pytest
import zstandard
from aiokafka import codec as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kafka_log.compression import Compression, Compressor, DecompressError, Decompressor, TargetFull

COMPRESSING = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
DECODERS = {
    Compression.NONE: bytes,
    Compression.GZIP: oracle.gzip_decode,
    Compression.SNAPPY: oracle.snappy_decode,
    Compression.LZ4: oracle.lz4_decode,
    Compression.ZSTD: oracle.zstd_decode,
}
ENCODERS = {
    Compression.NONE: bytes,
    Compression.GZIP: oracle.gzip_encode,
    Compression.SNAPPY: oracle.snappy_encode,
    Compression.LZ4: oracle.lz4_encode,
    Compression.ZSTD: oracle.zstd_encode,
}
BODIES = st.binary(max_size=300) | st.binary(min_size=1, max_size=50).map(lambda part: part * 3000)


def decompress(compression: Compression, source: bytes, room: int = 1 << 20) -> bytes:
    target = np.empty(room, np.uint8)
    size = Decompressor().decompress_into(compression, memoryview(source), target)
    return target[:size].tobytes()


@pytest.mark.parametrize("compression", Compression)
@given(body=BODIES)
@settings(max_examples=25, deadline=None)
def test_bodies_written_here_are_read_by_aiokafka_and_back(compression: Compression, body: bytes) -> None:
    compressed = Compressor(compression).compress(body)
    assert decompress(compression, compressed) == body
    if body or compression is not Compression.SNAPPY:  # aiokafka takes a lone snappy-java header for a raw block
        assert bytes(DECODERS[compression](compressed)) == body
    assert decompress(compression, bytes(ENCODERS[compression](body))) == body


@pytest.mark.parametrize("compression", Compression)
def test_target_without_room_is_full_and_not_corrupt(compression: Compression) -> None:
    body = bytes(range(256)) * 400
    compressed = Compressor(compression).compress(body)
    assert decompress(compression, compressed, len(body) + 1) == body
    for room in (0, 1, 4096, len(body) - 1, len(body)):
        with pytest.raises(TargetFull):
            decompress(compression, compressed, room)


def test_snappy_without_framing_is_read_as_one_block() -> None:
    body = b"raw block " * 500
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(body))) == body


def test_snappy_framing_is_that_of_snappy_java() -> None:
    body = bytes(70_000)
    framed = Compressor(Compression.SNAPPY).compress(body)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    sizes, at = [], 16
    while at < len(framed):
        (size,) = struct.unpack_from(">i", framed, at)
        sizes.append(cramjam.snappy.decompress_raw_len(framed[at + 4 : at + 4 + size]))
        at += 4 + size
    assert sizes == [32768, 32768, 4464]


def test_two_snappy_streams_behind_each_other_are_one_body() -> None:
    one = Compressor(Compression.SNAPPY).compress(b"first ")
    assert decompress(Compression.SNAPPY, one + Compressor(Compression.SNAPPY).compress(b"second")) == b"first second"


@pytest.mark.parametrize(
    ("compression", "frame"),
    [
        (Compression.GZIP, gzip.compress),
        (Compression.LZ4, lambda body: bytes(cramjam.lz4.compress(body))),
        (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
    ],
)
def test_two_frames_behind_each_other_are_one_body(compression: Compression, frame: object) -> None:
    data = frame(b"first ") + frame(b"second")  # type: ignore[operator]
    assert decompress(compression, data) == b"first second"


@pytest.mark.parametrize("size", [10, 100_000])
def test_lz4_blocks_do_not_depend_on_each_other(size: int) -> None:
    frame = Compressor(Compression.LZ4).compress(bytes(size))
    block_independence_flag = 0x20
    assert frame[4] & block_independence_flag


@pytest.mark.parametrize("chunk_size", [-1, 2**31 - 1])
def test_snappy_chunk_that_lies_about_its_size_is_refused(chunk_size: int) -> None:
    framed = bytearray(Compressor(Compression.SNAPPY).compress(b"x" * 100))
    struct.pack_into(">i", framed, 16, chunk_size)
    with pytest.raises(DecompressError, match="does not fit"):
        decompress(Compression.SNAPPY, bytes(framed))


def test_snappy_block_that_claims_gigabytes_is_refused_before_memory_is_sought() -> None:
    claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\0" * 10
    with pytest.raises(DecompressError, match="claims"):
        decompress(Compression.SNAPPY, claims_4_gib)


@pytest.mark.parametrize("compression", COMPRESSING)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_end_in_a_named_error_or_in_other_bytes(compression: Compression, data: st.DataObject) -> None:
    damaged = bytearray(Compressor(compression).compress(bytes(range(200)) * 40))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for source in (bytes(damaged), bytes(damaged[:cut])):
        try:
            assert len(decompress(compression, source, 1 << 16)) < 1 << 16
        except (DecompressError, TargetFull):
            continue
