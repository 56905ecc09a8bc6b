"""Arrow columns taken apart into Parquet's leaf columns: values, and the levels that say where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.table import page_level_kernels as kernels

_NO_BITS = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafPiece:
    """``count`` entries of one leaf column and the values among them.

    ``array`` is the Arrow array of the leaf (an extension's storage). ``definition`` is the level of all entries, or
    uint8[count]; ``repetition`` uint8[count], or None where all are 0, and then ``row_at`` None as well, or the first
    entry of each row, int64[rows]. The values are ``array[positions]``, or where
    ``positions`` is None the ``value_count`` values from ``first`` on.
    """

    array: pa.Array
    count: int
    definition: int | NDArray[np.uint8]
    repetition: NDArray[np.uint8] | None
    row_at: NDArray[np.int64] | None
    first: int
    value_count: int
    positions: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Slots:
    """Entries on the way down to a leaf.

    ``place`` is an int where the entries are a run of the array from there on, None where all are missing, or
    int64[count] with -1 for a missing one; ``definition`` is one level for all unless ``place`` is an array.
    """

    count: int
    definition: int | NDArray[np.uint8]
    repetition: NDArray[np.uint8] | None
    row_at: NDArray[np.int64] | None
    repetition_level: int
    place: int | NDArray[np.int64] | None

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8]]:
        """Place, definition and repetition of every entry, as arrays of their own."""
        if isinstance(self.place, int):
            place = np.arange(self.place, self.place + self.count)
        else:
            assert self.place is not None
            place = self.place.copy()
        definition = (
            np.full(self.count, self.definition, np.uint8)
            if isinstance(self.definition, int)
            else self.definition.copy()
        )
        repetition = np.zeros(self.count, np.uint8) if self.repetition is None else self.repetition
        return place, definition, repetition


def shred(column: pa.Array, field: pa.Field) -> Iterator[LeafPiece]:
    """The leaves of a top-level column in file order."""
    slots = _Slots(count=len(column), definition=0, repetition=None, row_at=None, repetition_level=0, place=0)
    return _shred(column, field, slots)


def _shred(array: pa.Array, field: pa.Field, slots: _Slots) -> Iterator[LeafPiece]:
    kind = field.type
    if not pa.types.is_nested(kind):
        yield _leaf(array, field, slots)
        return
    slots = _below_optional(array, field, slots)
    if pa.types.is_struct(kind):
        for index, child in enumerate(kind):
            yield from _shred(array.field(index), child, slots)
        return
    slots = _below_list(array, slots)
    if pa.types.is_map(kind):
        yield from _shred(array.keys, kind.key_field, slots)
        yield from _shred(array.items, kind.item_field, slots)
    else:
        yield from _shred(array.values, kind.value_field, slots)


def _below_optional(array: pa.Array, field: pa.Field, slots: _Slots) -> _Slots:
    if not field.nullable or slots.place is None:
        return slots
    if isinstance(slots.place, int):
        run = array.slice(slots.place, slots.count)
        if run.null_count == 0:
            return replace(slots, definition=slots.definition + 1)
        if run.null_count == slots.count:
            return replace(slots, place=None)
    place, definition, _ = slots.entries()
    kernels.descend_optional(_valid(array), array.offset, definition, place)
    return replace(slots, definition=definition, place=place)


def _below_list(array: pa.Array, slots: _Slots) -> _Slots:
    level = slots.repetition_level + 1
    if slots.place is None:
        return replace(slots, repetition_level=level)
    offsets = array.offsets.to_numpy()
    if isinstance(slots.place, int):
        offsets = offsets[slots.place : slots.place + slots.count + 1]
        if bool((offsets[1:] > offsets[:-1]).all()):
            return _below_full_lists(offsets, slots, level)
        slots = replace(slots, place=np.arange(slots.count))
    place, definition, repetition = slots.entries()
    total = kernels.count_elements(offsets, place)
    below = np.empty(total, np.int64)
    new_definition, new_repetition = np.empty(total, np.uint8), np.empty(total, np.uint8)
    kernels.descend_list(offsets, place, definition, repetition, level, below, new_definition, new_repetition)
    return _Slots(
        count=total,
        definition=new_definition,
        repetition=new_repetition,
        row_at=np.flatnonzero(new_repetition == 0),
        repetition_level=level,
        place=below,
    )


def _below_full_lists(offsets: NDArray[np.int32], slots: _Slots, level: int) -> _Slots:
    """Below lists that all have elements: these are a run again, and only where each list begins is to be noted."""
    assert isinstance(slots.definition, int), "entries that are a run have one definition level"
    begins = offsets[:-1].astype(np.int64) - offsets[0]
    total = int(offsets[-1]) - int(offsets[0])
    repetition = np.full(total, level, np.uint8)
    repetition[begins] = 0 if slots.repetition is None else slots.repetition
    return _Slots(
        count=total,
        definition=slots.definition + 1,
        repetition=repetition,
        row_at=begins if slots.row_at is None else begins[slots.row_at],
        repetition_level=level,
        place=int(offsets[0]),
    )


def _valid(array: pa.Array) -> NDArray[np.uint8]:
    bits = array.buffers()[0]
    return _NO_BITS if bits is None else np.frombuffer(bits, np.uint8)


def _leaf(array: pa.Array, field: pa.Field, slots: _Slots) -> LeafPiece:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    definition = slots.definition
    positions: NDArray[np.int64] | None = None
    first, value_count = 0, slots.count
    if slots.place is None:
        value_count = 0
    elif isinstance(slots.place, int):
        first = slots.place
        run = array if slots.count == len(array) else array.slice(first, slots.count)
        if field.nullable:
            nulls = run.null_count
            if nulls == 0:
                definition += 1
            elif nulls == slots.count:
                value_count = 0
            else:
                level = definition
                definition = np.empty(slots.count, np.uint8)
                positions = np.empty(slots.count + 1, np.int64)
                value_count = kernels.present_in_range(
                    _valid(array), array.offset + first, slots.count, level, definition, positions
                )
                positions = positions[:value_count]
                positions += first
                first = 0
    else:
        place, definition, _ = slots.entries()
        if field.nullable:
            kernels.descend_optional(_valid(array), array.offset, definition, place)
        positions = np.empty(slots.count + 1, np.int64)
        value_count = kernels.dense_places(place, positions)
        positions = positions[:value_count]
    return LeafPiece(
        array=array,
        count=slots.count,
        definition=definition,
        repetition=slots.repetition,
        row_at=slots.row_at,
        first=first,
        value_count=value_count,
        positions=positions,
    )
