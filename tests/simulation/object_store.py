"""An object store in memory, under the real Warehouse and under pyiceberg's own file access.

``mounted(stores)`` makes ``s3://`` with the property ``s3.endpoint=sim-<name>`` lead to it, one endpoint a client, so
that the network between one daemon and the store can fail alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import pyarrow as pa
from pyarrow import fs
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.typedef import Properties

from engine.warehouse.object_requests import ListedObject

Operation = str
"""``read``, ``write``, ``list`` or ``delete``: what a fault may concern."""

BUCKET = "warehouse"
_clients: dict[str, StoreClient] = {}


def _let_go(key: str) -> None:
    """Nobody asks."""


class ObjectStore:
    """Objects by key. An object is there whole or not at all; the newest one under a name counts."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified_ms: dict[str, int] = {}
        self.on_removal: Callable[[str], None] = _let_go
        """Hears of each object that is removed as one of many, while it is there."""

    def put(self, key: str, content: bytes, now_ms: int) -> None:
        self.objects[key] = content
        self.modified_ms[key] = now_ms


def _let_pass(operation: Operation, key: str) -> None:
    """Nothing is wrong."""


class StoreClient:
    """One process's way to the store. ``before`` is called with each operation and its key, and may raise OSError."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        now_ms: Callable[[], int],
        before: Callable[[Operation, str], None] | None = None,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._before = before or _let_pass
        self.filesystem = fs.PyFileSystem(_Handler(self))

    def read(self, key: str) -> bytes:
        self._before("read", key)
        try:
            return self._store.objects[key]
        except KeyError:
            raise FileNotFoundError(key) from None

    def write(self, key: str, content: bytes) -> None:
        self._before("write", key)
        self._store.put(key, content, self._now_ms())

    def begin(self, key: str) -> None:
        self._before("write", key)

    def delete(self, key: str, *, is_of_many: bool = False) -> None:
        self._before("delete", key)
        if is_of_many and key in self._store.objects:
            self._store.on_removal(f"s3://{key}")
        if self._store.objects.pop(key, None) is None:
            raise FileNotFoundError(key)

    def find(self, prefix: str) -> list[str]:
        self._before("list", prefix)
        return sorted(key for key in self._store.objects if key.startswith(prefix))

    def info(self, key: str) -> fs.FileInfo:
        self._before("list", key)
        content = self._store.objects.get(key)
        if content is None:
            return fs.FileInfo(key, fs.FileType.NotFound)
        return fs.FileInfo(key, fs.FileType.File, size=len(content), mtime_ns=self._store.modified_ms[key] * 1_000_000)


class _Requests:
    """S3's own listing and deletion of many, as engine/warehouse/object_requests.py has them."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def list(self, bucket: str, prefix: str) -> Iterator[ListedObject]:
        for key in self._client.find(f"{bucket}/{prefix}"):
            found = self._client.info(key)
            yield ListedObject(key.removeprefix(f"{bucket}/"), found.size, found.mtime_ns // 1_000_000)

    def delete(self, bucket: str, keys: Sequence[str]) -> dict[str, str]:
        for key in keys:
            with suppress(FileNotFoundError):
                self._client.delete(f"{bucket}/{key}", is_of_many=True)
        return {}


class _Upload(io.RawIOBase):
    """Bytes on their way: an object once it is closed."""

    def __init__(self, client: StoreClient, key: str) -> None:
        client.begin(key)
        self._client = client
        self._key = key
        self._parts = io.BytesIO()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._parts.write(data)

    def tell(self) -> int:
        return self._parts.tell()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._client.write(self._key, self._parts.getvalue())

    def __del__(self) -> None:
        """An upload that nobody completes leaves nothing."""


class _Handler(fs.FileSystemHandler):
    """What pyarrow asks of a file system written in Python, as far as the Warehouse uses it."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def get_type_name(self) -> str:
        return "simulated"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._client.info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        folder = selector.base_dir.rstrip("/") + "/"
        found = self._client.find(folder)
        if not found and not selector.allow_not_found:
            raise FileNotFoundError(selector.base_dir)
        inside = dict.fromkeys(key.removeprefix(folder).partition("/")[:2] for key in found)
        return [
            fs.FileInfo(folder + name, fs.FileType.Directory) if slash else self._client.info(folder + name)
            for name, slash in inside
        ]

    def delete_file(self, path: str) -> None:
        self._client.delete(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._client.read(path))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._client.read(path))

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        return pa.PythonFile(_Upload(self._client, path), mode="w")

    def _unused(self, *_: object) -> Any:
        raise NotImplementedError("the Warehouse does not ask for this")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _unused
    move = copy_file = open_append_stream = _unused


def endpoint_properties(name: str) -> dict[str, str]:
    """The catalog properties by which a Warehouse and pyiceberg find the client of this name."""
    return {
        "warehouse": f"s3://{BUCKET}",
        "s3.endpoint": f"sim-{name}",
        "py-io-impl": f"{__name__}.SimulatedFileIO",
    }


@contextmanager
def mounted(clients: dict[str, StoreClient]) -> Iterator[None]:
    """Within the block, ``s3.endpoint=sim-<name>`` leads to ``clients[name]``, also to those that are added later."""
    global _clients  # noqa: PLW0603 - pyiceberg makes its file access by itself, from properties alone
    before, _clients = _clients, clients

    def filesystem(settings: tuple[tuple[str, str], ...]) -> fs.FileSystem:
        return _client_of(dict(settings)).filesystem

    def requests(settings: tuple[tuple[str, str], ...]) -> _Requests:
        return _Requests(_client_of(dict(settings)))

    try:
        with (
            mock.patch("engine.warehouse.warehouse._object_store", filesystem),
            mock.patch("engine.warehouse.warehouse._object_requests", requests),
        ):
            yield
    finally:
        _clients = before


def _client_of(properties: Properties) -> StoreClient:
    return _clients[str(properties["s3.endpoint"]).removeprefix("sim-")]


class SimulatedFileIO(FileIO):
    """pyiceberg's access to manifests and manifest lists."""

    def new_input(self, location: str) -> InputFile:
        return _ObjectFile(location, _client_of(self.properties))

    def new_output(self, location: str) -> OutputFile:
        return _ObjectFile(location, _client_of(self.properties))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        where = location if isinstance(location, str) else location.location
        _client_of(self.properties).delete(where.removeprefix("s3://"))


class _ObjectFile(InputFile, OutputFile):
    def __init__(self, location: str, client: StoreClient) -> None:
        super().__init__(location)
        self._client = client
        self._key = location.removeprefix("s3://")

    def __len__(self) -> int:
        return len(self._client.read(self._key))

    def exists(self) -> bool:
        return self._client.info(self._key).type == fs.FileType.File

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._client.read(self._key))

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        return _Upload(self._client, self._key)

    def to_input_file(self) -> InputFile:
        return self
