"""The schemas that a topic's records name, or would have, and that its table has not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsSchemas:
    """Nothing was written: these ids, of values' and of keys' schemas, must be resolved, or given up, first.

    ``proposed_schemas`` were inferred from values that name none, and are to be stored, or refused, first;
    ``proposed_key_schemas`` from keys.
    """

    schema_ids: frozenset[int] = frozenset()
    key_schema_ids: frozenset[int] = frozenset()
    proposed_schemas: frozenset[str] = frozenset()
    proposed_key_schemas: frozenset[str] = frozenset()

    def and_those_of(self, other: NeedsSchemas) -> NeedsSchemas:
        """What two tasks of one topic need."""
        return NeedsSchemas(
            schema_ids=self.schema_ids | other.schema_ids,
            key_schema_ids=self.key_schema_ids | other.key_schema_ids,
            proposed_schemas=self.proposed_schemas | other.proposed_schemas,
            proposed_key_schemas=self.proposed_key_schemas | other.proposed_key_schemas,
        )
