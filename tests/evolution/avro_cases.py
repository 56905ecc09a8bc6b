"""Every change that an Avro schema makes."""

from __future__ import annotations

from tests.evolution.field_cases import FIELD_CASES
from tests.evolution.type_cases import TYPE_CASES

CASES = (*FIELD_CASES, *TYPE_CASES)
