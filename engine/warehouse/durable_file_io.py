"""Iceberg's metadata files on a local disk, durable before the catalog points at them.

pyiceberg's own local writer leaves a metadata file in the page cache; a power cut after the catalog's commit would
then leave a pointer to a file that is empty. Here a file appears under its name only once it is on the disk.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from engine.fault_points import FaultPoint, reach
from engine.warehouse.warehouse import NewFile, Warehouse

_LOCAL_SCHEMES = frozenset({"", "file"})


class DurableFileIO(PyArrowFileIO):
    """pyiceberg's file access; only writing to a local disk differs. Named by the property ``py-io-impl``."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        filesystem = self.fs_by_scheme(scheme, netloc)
        if scheme in _LOCAL_SCHEMES:
            return _DurableFile(location=location, path=path, fs=filesystem)
        return PyArrowFile(location=location, path=path, fs=filesystem)


class _DurableFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(f"cannot create {self.location}: it exists")
        return _DurableStream(Warehouse().create(self._path))


class _DurableStream:
    """The stream pyiceberg writes to; closing it publishes the file."""

    def __init__(self, file: NewFile) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.size_bytes

    def flush(self) -> None:
        """Nothing is held back."""

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        if not self._file.closed:
            self._file.commit()
            reach(FaultPoint.ICEBERG_FILE_DURABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.abort()
