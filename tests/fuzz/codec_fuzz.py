"""Hostile values between sound ones: no decoder may crash, call damage exact, or touch a neighbour."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from bench.values.value_formats import SCHEMA_ID, TRIALS
from bench.values.value_records import KINDS
from engine.formats.codec import PLAIN_SCHEMA_ID, CodecSpec, ValueCodec, Verdict, open_codec, propose_fields
from engine.records.records import ByteSpans
from tests.fuzz.hostile_bytes import hostile

BLOCK_VALUES = 400
_RECORDS = 60


@dataclass(slots=True, kw_only=True)
class Target:
    """A codec with sound values of one kind; ``sound`` are exact."""

    name: str
    codec: ValueCodec
    sound: list[bytes]


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was thrown at the codecs so far, and what they said."""

    values: int = 0
    size_bytes: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)


def targets() -> list[Target]:
    """Every format that can refuse a value, over every kind of realistic records; JSON framed and plain."""
    made = []
    for name, trial_of in TRIALS.items():
        for kind in KINDS:
            trial = trial_of(kind, _RECORDS)
            schemas = dict.fromkeys((SCHEMA_ID, PLAIN_SCHEMA_ID), trial.schema_text)
            spec = CodecSpec(name=name, options=trial.options, schemas=schemas)
            sound = [value for value in trial.values.to_list() if value is not None]
            if name == "json":
                sound += [bytes(body) for body in trial.bodies]
            made.append(_target(f"{name} {kind.name}", spec, sound, trial.schema_text))
    text = ["größer € 🧊", "", "plain", "\0"]
    made.append(_target("string", CodecSpec(name="string"), [each.encode() for each in text], ""))
    return made


def _target(name: str, spec: CodecSpec, sound: list[bytes], schema_text: str) -> Target:
    fields = propose_fields(spec.name, schema_text, (), options=spec.options).fields
    return Target(name=name, codec=open_codec(spec, fields), sound=sound)


def attack(target: Target, chance: random.Random, tally: Tally) -> None:
    """One block of hostile values, a sound one behind each. Raises AssertionError with the value that did harm."""
    damaged = [hostile(chance, target.sound) for _ in range(BLOCK_VALUES)]
    neighbours = [chance.choice(target.sound) for _ in damaged]
    block = [value for pair in zip(damaged, neighbours, strict=True) for value in pair]
    decoded = target.codec.decode(ByteSpans.from_list(list(block)))
    decoded.columns.validate(full=True)
    exact = decoded.verdict == Verdict.EXACT
    rebuilt = target.codec.encode(decoded.columns, decoded.schema_id, exact).to_list()
    for row, value in enumerate(block):
        if row % 2:
            assert exact[row], f"{target.name}: {block[row - 1]!r} spoiled its neighbour {value!r}"
        assert not exact[row] or rebuilt[row] == value, f"{target.name}: {value!r} was called exact"
        assert exact[row] or decoded.reason_of(row), f"{target.name}: {value!r} is kept without a reason"
    tally.values += len(damaged)
    tally.size_bytes += sum(map(len, damaged))
    for verdict in decoded.verdict[::2].tolist():
        name = Verdict(verdict).name.lower()
        tally.verdicts[name] = tally.verdicts.get(name, 0) + 1
