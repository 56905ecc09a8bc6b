"""Which share of realistic values the columns alone give back, by format and by who wrote them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.measurement import Measurement
from bench.values.java_producers import java_values
from bench.values.python_producers import python_values
from bench.values.value_formats import SCHEMA_ID, TITLE, schema_text
from bench.values.value_records import KINDS
from engine.formats.codec import PLAIN_SCHEMA_ID, CodecSpec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans

RECORDS = 2_000
"""Of each kind by each producer: a share of one in a thousand shows."""


def shares(folder: Path, record_count: int) -> dict[str, float]:
    """The share by producer (``<format>_<who>``) over all kinds of records. ``folder`` takes what Java reads."""
    records = {kind: kind.records(record_count) for kind in KINDS}
    values: dict[tuple[str, str], Sequence[bytes | None]] = {}
    for kind, made in records.items():
        values.update(python_values(kind, made))
    values.update(java_values(folder, records, schema_id=SCHEMA_ID))
    exact: Counter[str] = Counter()
    kinds = {kind.name: kind for kind in KINDS}
    for (kind_name, producer), written in values.items():
        format_name = producer.partition("_")[0]
        exact[producer] += count_exact(format_name, schema_text(format_name, kinds[kind_name]), written)
    return {producer: count / (record_count * len(KINDS)) for producer, count in exact.items()}


def count_exact(format_name: str, text: str, values: Sequence[bytes | None]) -> int:
    """How many values need no raw bytes; each of them is rebuilt and compared."""
    ids = {int.from_bytes(value[1:5], "big") if value[0] == 0 else PLAIN_SCHEMA_ID for value in values if value}
    fields = propose_fields(format_name, text, ()).fields
    codec = open_codec(CodecSpec(name=format_name, schemas=dict.fromkeys(ids, text)), fields)
    decoded = codec.decode(ByteSpans.from_list(values))
    exact = decoded.verdict == Verdict.EXACT
    rebuilt = codec.encode(decoded.columns, decoded.schema_id, exact)
    expected = [value if good else None for value, good in zip(values, exact.tolist(), strict=True)]
    assert rebuilt.to_list() == expected, f"a value of {format_name} came back with other bytes"
    return int(np.count_nonzero(exact))


def measure(folder: Path, *, record_count: int = RECORDS) -> list[Measurement]:
    """The shares as measurements. Raises Unavailable where the jars can't be had."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for producer, share in shares(folder, record_count).items():
        format_name, who = producer.split("_", 1)
        found.append(
            Measurement(
                key=f"values.{format_name}.share_exact_{who}",
                title=f"{TITLE[format_name]} by {_WHO[who]}: records whose columns are enough",
                unit="share",
                samples=(share,),
                higher_is_better=True,
            )
        )
    return found


_WHO = {
    "confluent": "Confluent's Python serializer",
    "java": "Java's encoder",
    "dumps": "json.dumps",
    "dumps_compact": "json.dumps, compact",
    "orjson": "orjson",
    "jackson": "Jackson",
    "gson": "Gson",
}
