"""Types for kernel signatures: arrays, and NamedTuples of them.

Explicit signatures compile once, at import or from the cache, and never again for another layout. Inputs are typed
read-only because Arrow buffers and mapped files are; a writable array passes for a read-only one, not the reverse.
docs/kernels.md says how the parts go together.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

import numpy as np
from numba import types
from numpy.typing import NDArray


def read_only(dtype: types.Type) -> types.Array:
    """A contiguous one-dimensional input."""
    return types.Array(dtype, 1, "C", readonly=True)


def strided(dtype: types.Type) -> types.Array:
    """A one-dimensional input of any stride (a column of a slice)."""
    return types.Array(dtype, 1, "A", readonly=True)


def writable(dtype: types.Type) -> types.Array:
    """A contiguous one-dimensional output."""
    return types.Array(dtype, 1, "C")


# What a NamedTuple of arrays declares: NumPy's type for the reader and mypy, numba's for the signature.
Bytes: TypeAlias = Annotated[NDArray[np.uint8], read_only(types.uint8)]
Ints: TypeAlias = Annotated[NDArray[np.int32], read_only(types.int32)]
Words: TypeAlias = Annotated[NDArray[np.int64], read_only(types.int64)]
OutBytes: TypeAlias = Annotated[NDArray[np.uint8], writable(types.uint8)]
OutInts: TypeAlias = Annotated[NDArray[np.int32], writable(types.int32)]
OutWords: TypeAlias = Annotated[NDArray[np.int64], writable(types.int64)]

Array = TypeVar("Array", bound=NDArray[Any])


def tuple_of(kind: Any) -> types.BaseTuple:
    """A NamedTuple class as an argument's type, its fields annotated with the array types above."""
    hints = get_type_hints(kind, include_extras=True)
    return types.BaseTuple.from_types([hints[name].__metadata__[0] for name in kind._fields], kind)


def frozen(array: Array) -> Array:
    """The array, contiguous and read-only, as an input in a NamedTuple is: numba converts none that lies in a tuple."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return cast(Array, view)
