"""What damaged metadata makes Iceberg's and JSON's readers raise, as the program's own ``Corrupt``.

They decode what they are given and raise whatever comes of it: there is no one kind of error for "these bytes are not
what they claim to be". tests/faults turns bits and cuts files to see that none is missing here.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import ResolveError, ValidationError

from engine.errors import Corrupt

UNDECODABLE = (
    ValidationError,
    ResolveError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    EOFError,
    ImportError,
    MemoryError,
    RuntimeError,
    SystemError,
    gzip.BadGzipFile,
    zlib.error,
)
"""JSON and pydantic's errors are ValueErrors; an Avro header that names another codec ends in an
ImportError, a negative length in the library's compiled decoder in a SystemError."""

RESTORE_METADATA = (
    "restore the file from a copy of the warehouse (metadata files never change), or register an earlier metadata "
    "file of the table; docs/runbook.md, Damaged tables"
)


@contextmanager
def metadata_decoded(file: str, *, topic: str | None = None) -> Iterator[None]:
    """Decoding inside gives Corrupt for bytes that can't be. Errors of the store pass."""
    try:
        yield
    except UNDECODABLE as error:
        text = " ".join(str(error).split())[:200]
        raise Corrupt(
            f"a metadata file of the table is damaged: {type(error).__name__}: {text}",
            topic=topic,
            file=file,
            next_step=RESTORE_METADATA,
        ) from error
