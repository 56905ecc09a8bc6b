"""Every change of a schema that is played, whatever its format."""

from __future__ import annotations

from tests.evolution.field_cases import FIELD_CASES
from tests.evolution.json_cases import JSON_CASES
from tests.evolution.protobuf_cases import PROTOBUF_CASES
from tests.evolution.type_cases import TYPE_CASES

CASES = (*FIELD_CASES, *TYPE_CASES, *PROTOBUF_CASES, *JSON_CASES)
