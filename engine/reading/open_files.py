"""Which files are being read for answers that are under way: whoever removes files asks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from engine.table.manifests import TableFile

_Part = TypeVar("_Part")


class OpenFiles:
    """Safe to use from several threads. As many as the answers that are under way have, and those are bounded."""

    def __init__(self) -> None:
        self._readers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def paths(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._readers)

    def while_read(self, files: Sequence[TableFile], parts: Iterable[_Part]) -> Iterator[_Part]:
        """The same parts, while ``files`` are open: from the first that is asked for until the last, or until whoever
        asks lets go of the iterator."""
        paths = [part.path for file in files for part in (file.parts or (file,))]
        with self._held(paths):
            yield from parts

    @contextmanager
    def _held(self, paths: Sequence[str]) -> Iterator[None]:
        with self._lock:
            self._readers.update(paths)
        try:
            yield
        finally:
            with self._lock:
                self._readers.subtract(paths)
                self._readers = +self._readers
