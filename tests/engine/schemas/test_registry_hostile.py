"""Whatever JSON a registry sends, a schema comes of it or one of our errors, never another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import FloebergError
from engine.schemas.http import Absent, RegistryAccess, RegistryHttp
from engine.schemas.registry import SchemaRegistry
from tests.engine.schemas.patient_clock import PatientClock

NAMES = ["type", "record", "name", "fields", "items", "values", "namespace", "symbols", "enum", "array", "string"]
WORDS = ["$ref", "$defs", "definitions", "properties", "$id", "id", "$anchor", "A", "a.json", "#/$defs/A", "a.json#/x"]
URLS = ["http://[", "//", "#", "", "http://a/b.json", "\x00", "%zz", "../a.json", "x:y"]
texts = st.sampled_from([*NAMES, *WORDS, *URLS]) | st.text(max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)
references = values | st.lists(
    st.fixed_dictionaries(
        {}, optional={"name": scalars, "subject": scalars, "version": scalars | st.integers(min_value=1, max_value=3)}
    ),
    max_size=3,
)
schema_texts = values.map(json.dumps) | texts
answers = values | st.fixed_dictionaries(
    {"schema": schema_texts | values},
    optional={
        "references": references,
        "schemaType": st.sampled_from(["AVRO", "JSON"]) | scalars,
        "id": scalars,
        "version": scalars,
        "metadata": values,
    },
)


class ScriptedHttp(RegistryHttp):
    """Gives out answers, the last one for ever; in the place of the network, which has nothing to add here."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__(RegistryAccess(urls=("http://registry",)), PatientClock())
        self._script = script

    @contextmanager
    def question(self) -> Iterator[Any]:
        yield self

    def ask(self, path: str, what: str, parameters: Any = None) -> Any:
        if not self._script:
            raise Absent(f"{what} is not in the registry")
        return self._script.pop(0)


@pytest.mark.parametrize("schema_format", ["avro", "json"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=st.lists(answers, max_size=4), metadata=st.sampled_from([{}, {"major": "1"}]))
def test_any_answer_is_a_schema_or_one_of_our_errors(
    schema_format: str, script: list[Any], metadata: dict[str, str]
) -> None:
    for ask in (
        lambda registry: registry.get(1, schema_format),
        lambda registry: registry.newest("s", metadata, schema_format),
        lambda registry: registry.subjects("s-"),
    ):
        try:
            ask(SchemaRegistry(ScriptedHttp(list(script))))
        except FloebergError:
            continue
