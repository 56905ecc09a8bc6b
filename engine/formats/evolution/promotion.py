"""Iceberg's type promotions (version 2): which column takes which values, and a narrower file's columns made wider.

int to long, float to double, a decimal to one of more digits and the same scale. Source: Iceberg table specification,
"Schema Evolution".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_SIGN, _NAN_EXPONENT, _PAYLOAD = np.uint64(1 << 31), np.uint64(0x7FF << 52), np.uint64((1 << 23) - 1)


def is_promotion(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether a column of the type ``narrow`` may become ``wide``; a type is no promotion of itself."""
    if pa.types.is_decimal128(narrow) and pa.types.is_decimal128(wide):
        return bool(narrow.scale == wide.scale and narrow.precision < wide.precision)
    return (narrow, wide) in {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def holds(column: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column takes values of the type ``wanted`` as it is; the fields of a struct are no part of this."""
    return _agree(column, wanted, may_widen=False)


def can_become(column: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column takes values of the type ``wanted``, once it is promoted where it needs to be."""
    return _agree(column, wanted, may_widen=True)


def _agree(column: pa.DataType, wanted: pa.DataType, *, may_widen: bool) -> bool:
    if pa.types.is_struct(column) and pa.types.is_struct(wanted):
        return True
    if pa.types.is_list(column) and pa.types.is_list(wanted):
        return _agree(column.value_type, wanted.value_type, may_widen=may_widen)
    if pa.types.is_map(column) and pa.types.is_map(wanted):
        # A map's key is never promoted: keys that were different must stay so.
        same_keys = column.key_type == wanted.key_type
        return same_keys and _agree(column.item_type, wanted.item_type, may_widen=may_widen)
    return column == wanted or is_promotion(wanted, column) or (may_widen and is_promotion(column, wanted))


def promoted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array of an older file as wide as the table's type ``kind`` has it, at every level; anything else as it is.

    Fields of a struct are paired by name; what the array lacks, it goes on lacking. Every bit of a NaN is kept.
    """
    found = array.type
    if found == kind or pa.types.is_dictionary(found):
        return array
    if pa.types.is_struct(found) and pa.types.is_struct(kind):
        return _promoted_struct(array, kind)
    if pa.types.is_list(found) and pa.types.is_list(kind):
        values = promoted(array.values, kind.value_type)
        if values.type == found.value_type:
            return array
        return _with_child(array, pa.list_(_typed(found.value_field, values)), values)
    if pa.types.is_map(found) and pa.types.is_map(kind):
        items = promoted(array.items, kind.item_type)
        if items.type == found.item_type:
            return array
        fields = [found.key_field, _typed(found.item_field, items)]
        entries = pa.StructArray.from_arrays([array.keys, items], fields=fields)
        return _with_child(array, pa.map_(*fields), entries)
    return _promoted_leaf(array, kind) if is_promotion(found, kind) else array


def _promoted_struct(array: pa.StructArray, kind: pa.StructType) -> pa.Array:
    wide = {child.name: child.type for child in kind}
    children = [array.field(index) for index in range(array.type.num_fields)]
    made = [
        promoted(child, wide.get(field.name, child.type)) for child, field in zip(children, array.type, strict=True)
    ]
    if all(new.type == old.type for new, old in zip(made, children, strict=True)):
        return array
    fields = [_typed(field, child) for field, child in zip(array.type, made, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(made, fields=fields, mask=mask)


def _typed(field: pa.Field, array: pa.Array) -> pa.Field:
    return field.with_type(array.type)


def _with_child(array: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[child]
    )


def _promoted_leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    validity, values = array.buffers()
    if not pa.types.is_decimal(kind):
        narrow = np.frombuffer(values or b"", array.type.to_pandas_dtype(), count=len(array) + array.offset)
        values = pa.py_buffer(_as_double(narrow) if pa.types.is_float64(kind) else narrow.astype(np.int64))
    return pa.Array.from_buffers(kind, len(array), [validity, values], array.null_count, array.offset)


def _as_double(narrow: NDArray[np.float32]) -> NDArray[np.float64]:
    """The processor's conversion makes every NaN a quiet one: those are converted by their bits."""
    with np.errstate(invalid="ignore"):
        wide = narrow.astype(np.float64)
    is_nan = np.isnan(narrow)
    if bool(is_nan.any()):
        bits = narrow.view(np.uint32)[is_nan].astype(np.uint64)
        wide.view(np.uint64)[is_nan] = (
            (bits & _SIGN) << np.uint64(32) | _NAN_EXPONENT | (bits & _PAYLOAD) << np.uint64(29)
        )
    return wide
