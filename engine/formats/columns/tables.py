"""What the kernels of the column machine are handed, whichever the format: NamedTuples of arrays.

The entry kernels take them as they are, and numba checks their types; within, the same names hold the arrays'
addresses (``addresses_of``).
"""

from __future__ import annotations

from typing import NamedTuple

from engine.kernels.types import Bytes, Ints, OutBytes, OutInts, OutWords, Words


class Block(NamedTuple):
    """The values to decode, those whose ``state`` uint8[n] is FRAMED; ``issues`` int64[n] gets what is wrong with each.

    ``start`` int64[n] and ``length`` int32[n] lie within ``data``, which the kernels check again.
    """

    data: Bytes
    start: Words
    length: Ints
    state: Bytes
    issues: OutWords


class Arena(NamedTuple):
    """A program laid out in memory: ``program`` its rows, whose columns begin at places of ``memory``.

    ``counts`` int64[levels] are the entries each level has, at most its ``capacity``, and ``saved`` those of whole
    records; beyond them nothing is written when a row finds no room half-way. ``stack`` holds the open lists and
    objects, ``map_table`` the hash table that a map's keys are compared by.
    """

    program: OutWords
    memory: OutBytes
    counts: OutWords
    saved: OutWords
    capacity: OutWords
    stack: OutWords
    map_table: OutInts


class EncodeTables(NamedTuple):
    """A program to write values by: each begins with the bytes of ``prefix``; ``slots`` hold the columns' addresses,
    ``stack`` the open lists."""

    prefix: Bytes
    program: Words
    slots: OutWords
    stack: OutWords


class Output(NamedTuple):
    """``rows`` int64[n] to encode, in their order, one after the other, into ``data``; ``ends`` int64[n + 1] gets where
    each ends, and ``trouble`` where the one that did not (its step, a code)."""

    rows: Words
    data: OutBytes
    ends: OutWords
    trouble: OutWords
