"""Value formats in this process, bound to one core: each codec both ways on realistic records, a library beside.

The codec makes columns of a block of records and bytes of columns; the library makes a Python object of a record and
back, which is what a consumer in Python pays. All sizes are of the values as producers send them, header included.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import struct
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json
from google.protobuf.json_format import ParseDict

from bench.cpu import bound_to_one_core, measured
from bench.measurement import Measurement
from bench.values.python_producers import message_class
from bench.values.value_records import KINDS, RecordKind, as_csv, as_json, as_proto_json
from engine.formats.codec import CodecSpec, Verdict, open_codec, propose_fields
from engine.formats.protobuf.descriptors import compile_proto
from engine.records.records import ByteSpans
from floeberg.daemon.freed_memory import keep_freed_memory

SCHEMA_ID = 101
HEADER = struct.pack(">bI", 0, SCHEMA_ID)
GOALS = {"avro": (10, 10), "protobuf": (1, 1), "json": (0.5, 0.5)}
"""Times the library's rate in the same run: decode, encode; none for CSV."""
RECORDS = 10_000
"""Of each kind: some megabytes, as a block of tiering has."""

_MEGABYTE = 1_000_000
LEAST_CPU_SECONDS = 0.2
"""Of one figure: a block of records takes a hundredth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One kind of records in one format: ``values`` with their header, and the library's way with their ``bodies``."""

    format_name: str
    schema_text: str
    values: ByteSpans
    bodies: Sequence[bytes]
    objects: Sequence[Any]
    library_decode: Callable[[bytes], object]
    library_encode: Callable[[Any], bytes]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """CPU-seconds that one pass over a trial's records takes."""

    size_bytes: int
    record_count: int
    exact_count: int
    decode_seconds: float
    encode_seconds: float


def schema_text(format_name: str, kind: RecordKind) -> str:
    """The kind's schema as a schema source hands it over."""
    if format_name == "protobuf":
        return compile_proto(kind.proto, {})
    return json.dumps(kind.avro if format_name == "avro" else kind.json_schema)


def avro_trial(kind: RecordKind, count: int) -> Trial:
    parsed = fastavro.parse_schema(dict(kind.avro))
    objects = kind.records(count)

    def encode(record: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        return out.getvalue()

    return _trial(
        "avro",
        kind,
        objects,
        encode,
        lambda body: fastavro.schemaless_reader(io.BytesIO(body), parsed),
    )


def protobuf_trial(kind: RecordKind, count: int) -> Trial:
    message = message_class(kind)
    objects = [ParseDict(as_proto_json(record), message()) for record in kind.records(count)]
    # The message's index, after the schema's id: a zero means the file's first.
    return _trial("protobuf", kind, objects, message.SerializeToString, message.FromString, b"\0")


def json_trial(kind: RecordKind, count: int) -> Trial:
    objects = [as_json(record) for record in kind.records(count)]
    return _trial("json", kind, objects, orjson.dumps, orjson.loads)


def _trial(
    format_name: str,
    kind: RecordKind,
    objects: Sequence[Any],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], object],
    more_header: bytes = b"",
) -> Trial:
    bodies = [encode(each) for each in objects]
    return Trial(
        format_name=format_name,
        schema_text=schema_text(format_name, kind),
        values=ByteSpans.from_list([HEADER + more_header + body for body in bodies]),
        bodies=bodies,
        objects=objects,
        library_decode=decode,
        library_encode=encode,
    )


def csv_trial(kind: RecordKind, count: int) -> Trial:
    """A record's own texts, numbers and times, what is nested left out, as Python's csv module writes them."""
    records = kind.records(count)
    types = {name: _CSV_TYPES[type(value)] for record in records for name, value in record.items() if _is_flat(value)}
    rows = [[as_csv(record[name]) for name in types] for record in records]

    def encode(row: Any) -> bytes:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerow(row)  # without one, a text of two lines would not be quoted
        return out.getvalue().removesuffix("\n").encode()

    bodies = [encode(row) for row in rows]
    columns = json.dumps([f"{name}:{kind_of}" for name, kind_of in types.items()])
    return Trial(
        format_name="csv",
        schema_text=columns,
        options={"columns": columns},
        values=ByteSpans.from_list(list(bodies)),
        bodies=bodies,
        objects=rows,
        library_decode=lambda body: next(csv.reader(io.StringIO(body.decode(), newline=""))),
        library_encode=encode,
    )


_CSV_TYPES = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    Decimal: "decimal(18,2)",
    dt.datetime: "timestamptz(3)",
    uuid.UUID: "string",
}


def _is_flat(value: object) -> bool:
    return type(value) in _CSV_TYPES


TRIALS: dict[str, Callable[[RecordKind, int], Trial]] = {
    "avro": avro_trial,
    "protobuf": protobuf_trial,
    "json": json_trial,
    "csv": csv_trial,
}


def codec_rates(trial: Trial, least_seconds: float) -> Rates:
    """The codec over a trial's records, warm."""
    fields = propose_fields(trial.format_name, trial.schema_text, ()).fields
    spec = CodecSpec(name=trial.format_name, options=trial.options, schemas={SCHEMA_ID: trial.schema_text})
    codec = open_codec(spec, fields)
    decoded = codec.decode(trial.values)
    wanted = decoded.verdict == Verdict.EXACT
    columns, schema_id = decoded.columns, decoded.schema_id
    return Rates(
        size_bytes=trial.values.size_bytes,
        record_count=len(trial.values),
        exact_count=int(np.count_nonzero(wanted)),
        encode_seconds=_seconds(lambda: codec.encode(columns, schema_id, wanted), least_seconds),
        decode_seconds=_seconds(lambda: codec.decode(trial.values), least_seconds),
    )


def library_rates(trial: Trial, least_seconds: float) -> Rates:
    """The library over the same records, one by one."""

    def each(function: Callable[[Any], object], values: Sequence[Any]) -> None:
        for value in values:
            function(value)

    return Rates(
        size_bytes=trial.values.size_bytes,
        record_count=len(trial.values),
        exact_count=len(trial.values),
        decode_seconds=_seconds(lambda: each(trial.library_decode, trial.bodies), least_seconds),
        encode_seconds=_seconds(lambda: each(trial.library_encode, trial.objects), least_seconds),
    )


def _seconds(body: Callable[[], object], least_seconds: float) -> float:
    """CPU-seconds of one call, over as many as take ``least_seconds`` together; the first only warms up."""
    body()
    calls = 0
    with measured() as spent:
        until = time.process_time() + least_seconds
        while not calls or time.process_time() < until:
            body()
            calls += 1
    return spent.cpu_seconds / calls


def measure(
    *,
    repetitions: int,
    record_count: int = RECORDS,
    formats: Sequence[str] = tuple(TRIALS),
    kinds: Sequence[RecordKind] = KINDS,
    least_seconds: float = LEAST_CPU_SECONDS,
) -> list[Measurement]:
    """Every format over all kinds of records: bytes of all kinds over the CPU-seconds of all kinds."""
    keep_freed_memory()  # as Spark's workers do
    found = []
    with bound_to_one_core():
        for name in formats:
            trials = [TRIALS[name](kind, record_count) for kind in kinds]
            runs = [[codec_rates(trial, least_seconds) for trial in trials] for _ in range(repetitions)]
            peers = [[library_rates(trial, least_seconds) for trial in trials] for _ in range(repetitions)]
            found += _measurements(name, runs, peers)
            if name == "json":
                found.append(_pyarrow_json(trials, repetitions, least_seconds))
    return found


def _measurements(name: str, runs: list[list[Rates]], peers: list[list[Rates]]) -> list[Measurement]:
    decode_goal, encode_goal = (f"≥ {goal}" for goal in GOALS[name]) if name in GOALS else (None, None)
    first = runs[0]
    mb, records = sum(each.size_bytes for each in first) / _MEGABYTE, sum(each.record_count for each in first)
    decode, peer_decode = (_totals(each, "decode_seconds") for each in (runs, peers))
    encode, peer_encode = (_totals(each, "encode_seconds") for each in (runs, peers))
    share = sum(each.exact_count for each in first) / records
    rows: tuple[tuple[str, str, str, list[float], str | None], ...] = (
        ("decode_mb_per_second_core", "to columns", "MB/s a core", [mb / s for s in decode], None),
        ("encode_mb_per_second_core", "from columns", "MB/s a core", [mb / s for s in encode], None),
        ("records_per_second", "to columns", "records/s", [records / s for s in decode], None),
        ("share_exact", "records whose columns are enough", "share", [share], None),
        (
            "library_decode_mb_per_second_core",
            "the library's decoder",
            "MB/s a core",
            [mb / s for s in peer_decode],
            None,
        ),
        (
            "library_encode_mb_per_second_core",
            "the library's encoder",
            "MB/s a core",
            [mb / s for s in peer_encode],
            None,
        ),
        ("times_library", "to columns, against the library", "times", [min(peer_decode) / min(decode)], decode_goal),
        ("times_library_encode", "from columns, against it", "times", [min(peer_encode) / min(encode)], encode_goal),
    )
    return [
        Measurement(
            key=f"values.{name}.{key}",
            title=f"{TITLE[name]}: {title}",
            unit=unit,
            samples=tuple(samples),
            higher_is_better=True,
            goal=goal,
        )
        for key, title, unit, samples, goal in rows
    ]


TITLE = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON", "csv": "CSV"}


def _totals(runs: list[list[Rates]], name: str) -> list[float]:
    return [sum(getattr(each, name) for each in run) for run in runs]


def _pyarrow_json(trials: Sequence[Trial], repetitions: int, least_seconds: float) -> Measurement:
    texts = [b"\n".join(trial.bodies) for trial in trials]
    options = pa.json.ReadOptions(use_threads=False)

    def read() -> None:
        for text in texts:
            pa.json.read_json(pa.BufferReader(text), options)

    mb = sum(trial.values.size_bytes for trial in trials) / _MEGABYTE
    return Measurement(
        key="values.json.pyarrow_decode_mb_per_second_core",
        title="JSON: pyarrow.json, schema inferred, values lost that it can't tell",
        unit="MB/s a core",
        samples=tuple(mb / _seconds(read, least_seconds) for _ in range(repetitions)),
        higher_is_better=True,
    )
