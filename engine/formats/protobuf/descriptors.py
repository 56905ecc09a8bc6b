"""Schemas of Protobuf as texts that are complete in themselves: a FileDescriptorSet in base64.

The set holds imports before what imports them, the schema's own file last. Only this module runs protoc.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from engine.errors import Invalid, Unavailable
from engine.formats.protobuf.imports import BUILT_IN_IMPORTS

COMPILE_TIMEOUT_S = 60.0  # a schema takes a tenth of a second; a machine under load a few
MAX_MESSAGE_CHARACTERS = 2000

_NOISE = re.compile(r"^WARNING: All log messages|^[IW]\d{4} |warning:")
_OWN_FILE = "schema.proto"
_SET_FILE = "descriptors"
_COMPILED_FILE = "compiled"


def compile_proto(text: str, references: Mapping[str, str]) -> str:
    """The descriptor set of a ``.proto`` text; ``references`` are the texts of its imports under their import names.

    Each text may also be a FileDescriptorProto in base64: what Python's serializers register, and some registries keep.
    Google's well-known types and Confluent's own imports need not be handed in. Raises Invalid, with protoc's message,
    for a text that is no schema or an import that is missing; Unavailable when protoc does not end.
    """
    own_name = _OWN_FILE
    while own_name in references:
        own_name = f"the_{own_name}"
    with TemporaryDirectory(prefix="floeberg-protoc-") as folder:
        root = Path(folder)
        sources = root / "sources"
        compiled = FileDescriptorSet()
        for name, source in {**BUILT_IN_IMPORTS, **references, own_name: text}.items():
            file = _compiled(name, source)
            if file is None:
                _write(sources, name, source)
            else:
                compiled.file.append(file)
        (root / _COMPILED_FILE).write_bytes(compiled.SerializeToString())
        _run_protoc(sources, own_name, root / _SET_FILE, root / _COMPILED_FILE)
        return read_descriptor_set((root / _SET_FILE).read_bytes())


def read_descriptor_set(content: bytes) -> str:
    """A descriptor set's file (``protoc --include_imports --descriptor_set_out``) as a schema's text.

    Raises Invalid for bytes that are none, or for a set without all its imports.
    """
    text = base64.b64encode(content).decode("ascii")
    load_file(text)
    return text


def load_file(text: str) -> FileDescriptor:
    """The schema's own file out of its stored text. Raises Invalid when the text is no complete descriptor set."""
    try:
        found = FileDescriptorSet.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise Invalid(f"a schema is not a Protobuf descriptor set in base64: {error}") from error
    if not found.file:
        raise Invalid("a Protobuf descriptor set has no file")
    pool = DescriptorPool()
    try:
        for file in found.file:
            pool.Add(file)
        return pool.FindFileByName(found.file[-1].name)
    except (TypeError, KeyError, ValueError) as error:
        raise Invalid(f"a Protobuf descriptor set can't be used: {error}") from error


def _compiled(name: str, source: str) -> FileDescriptorProto | None:
    """The file under its import name, where its text is a descriptor; no ``.proto`` text is base64."""
    try:
        content = base64.b64decode(source, validate=True)
        file = FileDescriptorProto.FromString(content)
    except (DecodeError, binascii.Error, ValueError):
        return None
    if not content:
        return None
    file.name = name
    return file


def _write(folder: Path, name: str, text: str) -> None:
    """Put a file where protoc finds it under its import name. Raises Invalid for a name that leaves the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in name:
        raise Invalid(f"{name!r} is no name of a Protobuf import")
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise Invalid(f"the Protobuf import {name!r} can't be written as a file: {error}") from error


def _run_protoc(sources: Path, own_name: str, target: Path, compiled: Path) -> None:
    """Raises Invalid with what protoc says, Unavailable when it does not end or is not there."""
    command = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=."]
    command += [f"--proto_path={folder}" for folder in _google_imports()]
    if compiled.stat().st_size:
        command.append(f"--descriptor_set_in={compiled}")
    command += ["--include_imports", f"--descriptor_set_out={target}", own_name]
    try:
        done = subprocess.run(
            command,
            cwd=sources,  # so that its messages name files as the schema does
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"protoc did not end within {COMPILE_TIMEOUT_S:.0f} s") from error
    if done.returncode == 0:
        return
    lines = [line.rstrip(".") for line in done.stderr.splitlines() if not _NOISE.search(line)]
    said = "; ".join(lines)[:MAX_MESSAGE_CHARACTERS]
    if done.returncode != 1:
        raise Unavailable(f"protoc ended with status {done.returncode}: {said}")
    raise Invalid(f"protoc refuses the schema: {said}")


def _google_imports() -> list[Path]:
    """The folders that hold ``google/protobuf`` and ``google/type``."""
    folders = []
    for module, levels in (("grpc_tools.protoc", 0), ("google.type.money_pb2", 2)):
        found = find_spec(module)
        assert found is not None, f"{module} is a dependency"
        assert found.origin is not None, f"{module} is a file"
        folders.append(Path(found.origin).parents[levels])
    return [folders[0] / "_proto", folders[1]]
