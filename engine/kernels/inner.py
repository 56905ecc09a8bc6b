"""Functions that kernels are made of and only kernels call.

They are compiled into the kernels that call them and kept with these alone: an entry from Python, and a place in the
cache, would make compiling a third longer.
"""

from __future__ import annotations

from typing import Any

from numba import njit


def inner(function: Any = None, *, forceinline: bool = False) -> Any:
    """Decorate a kernel's part: ``@inner``, or ``@inner(forceinline=True)`` (docs/kernels.md says where that pays)."""
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if forceinline:
        # Only where it is so: what says nothing has it from its first caller, and decodes JSON a fifth faster for it.
        options["forceinline"] = True
    if function is None:
        return lambda function: _closed(njit(**options)(function))
    return _closed(njit(**options)(function))


def _closed(part: Any) -> Any:
    """Numba enters what it compiled into a table for calls from Python: here it would crash, for it has no wrapper."""
    part._insert = lambda *_args, **_options: None
    part._compile_for_args = _refuse
    return part


def _refuse(*_args: Any, **_options: Any) -> None:
    raise TypeError("an inner function is called by kernels only: give one a signature to call it from Python")
