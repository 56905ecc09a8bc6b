"""Values as the Java clients write them: by Avro's, Protobuf's, Jackson's and Gson's encoders, in a JVM of their own.

Confluent's Java serializers call the first three and put the header before what these write.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.values.value_records import Record, RecordKind, as_json, as_proto_json
from engine.formats.protobuf.descriptors import compile_proto
from floeberg.java.jdk import java_command
from floeberg.java.maven_jars import MavenArtifact, class_path, resolve_jars
from floeberg.processes.tied_process import tied

ENCODERS = (
    MavenArtifact(group="org.apache.avro", name="avro", version="1.12.0"),
    MavenArtifact(group="com.google.protobuf", name="protobuf-java-util", version="4.31.1"),
    MavenArtifact(group="com.google.code.gson", name="gson", version="2.11.0"),
)
JAVA_PRODUCERS = ("avro_java", "protobuf_java", "json_jackson", "json_gson")
"""What the Java program writes: the format, then who."""

_PROGRAM = Path(__file__).parent / "java_serializers" / "RecordWriter.java"
_TIMEOUT_SECONDS = 300.0


def java_values(
    folder: Path, records: Mapping[RecordKind, Sequence[Record]], *, schema_id: int
) -> dict[tuple[str, str], list[bytes | None]]:
    """The values by (kind's name, producer); files go to ``folder``. Raises Unavailable without jars."""
    for kind, made in records.items():
        (folder / f"{kind.name}.avsc").write_text(json.dumps(kind.avro))
        (folder / f"{kind.name}.desc").write_bytes(base64.b64decode(compile_proto(kind.proto, {})))
        for suffix, convert in (("typed.jsonl", as_proto_json), ("jsonl", as_json)):
            lines = (json.dumps(convert(record), ensure_ascii=False) + "\n" for record in made)
            (folder / f"{kind.name}.{suffix}").write_text("".join(lines), encoding="utf-8")
    run_java(ENCODERS, _PROGRAM, str(folder), str(schema_id), *(f"{kind.name}={kind.message}" for kind in records))
    return {
        (kind.name, producer): read_values(folder / f"{kind.name}.{producer}.values")
        for kind in records
        for producer in JAVA_PRODUCERS
    }


def run_java(jars: Sequence[MavenArtifact], program: Path, *arguments: str) -> None:
    """Run one source file with jars of the Maven registry. Raises Unavailable without them."""
    command = [java_command(), "-Dfile.encoding=UTF-8", "-cp", class_path(resolve_jars(jars)), str(program), *arguments]
    done = subprocess.run(tied(command), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with code {done.returncode}:\n{done.stderr[-4000:]}")


def read_values(path: Path) -> list[bytes | None]:
    """A file of values, each after its length in 4 bytes; the length -1 is a null."""
    content, at = path.read_bytes(), 0
    found: list[bytes | None] = []
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big", signed=True)
        at += 4
        found.append(content[at : at + size] if size >= 0 else None)
        at += max(0, size)
    return found
