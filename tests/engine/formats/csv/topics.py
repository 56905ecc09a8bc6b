"""CSV topics that the tests of this folder share."""

from __future__ import annotations

import json
from collections.abc import Sequence

from engine.formats.codec import CodecSpec, Decoded, ValueCodec, open_codec, propose_fields
from engine.records.records import ByteSpans

EVERY_KIND = (
    "id:long",
    "name:string",
    "price:decimal(10,2)",
    "at:timestamptz",
    "local:timestamp(3)",
    "day:date",
    "ratio:double",
    "count:int",
    "is_new:boolean",
)


def spec_of(columns: Sequence[str] = EVERY_KIND, **options: str) -> CodecSpec:
    return CodecSpec(name="csv", options={"columns": json.dumps(list(columns)), **options})


def codec_of(columns: Sequence[str] = EVERY_KIND, **options: str) -> ValueCodec:
    spec = spec_of(columns, **options)
    return open_codec(spec, propose_fields("csv", spec.options["columns"], ()).fields)


def decode(codec: ValueCodec, *lines: bytes | None) -> Decoded:
    return codec.decode(ByteSpans.from_list(lines))
