"""What the page kernels do, in plain Python: readers of each encoding, and bounds taken value by value."""

from __future__ import annotations

from collections.abc import Sequence


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    raw, at = read_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def unpack_bits(data: bytes, at: int, count: int, width: int) -> list[int]:
    bits = int.from_bytes(data[at : at + (count * width + 7) // 8], "little")
    return [bits >> (width * n) & ((1 << width) - 1) for n in range(count)]


def read_hybrid(data: bytes, at: int, count: int, width: int) -> tuple[list[int], int]:
    values: list[int] = []
    while len(values) < count:
        header, at = read_varint(data, at)
        if header & 1:
            values += unpack_bits(data, at, (header >> 1) * 8, width)
            at += (header >> 1) * width
        else:
            size = (width + 7) // 8
            values += [int.from_bytes(data[at : at + size], "little")] * (header >> 1)
            at += size
    return values[:count], at


def read_differences(data: bytes, at: int, bits: int) -> tuple[list[int], int]:
    """DELTA_BINARY_PACKED numbers of 32 or 64 bits."""
    block, at = read_varint(data, at)
    minis, at = read_varint(data, at)
    total, at = read_varint(data, at)
    value, at = read_zigzag(data, at)
    values = [value] if total else []
    while len(values) < total:
        least, at = read_zigzag(data, at)
        widths = data[at : at + minis]
        at += minis
        for width in widths:
            if len(values) >= total:
                break
            count = block // minis
            for packed in unpack_bits(data, at, count, width)[: total - len(values)]:
                value = signed(value + least + packed, bits)
                values.append(value)
            at += count * width // 8
    return values, at


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def dictionary_of(values: Sequence[object]) -> tuple[list[object], list[int]]:
    """(distinct values in the order they appear, each value's place among them)."""
    places: dict[object, int] = {}
    index = [places.setdefault(value, len(places)) for value in values]
    return list(places), index
