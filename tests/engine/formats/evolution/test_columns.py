"""Which column a field has, by what identifies it: names, aliases, numbers. Whole topics are in tests/evolution."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats.codec import FieldProposal, OnConflict, Placement
from engine.formats.evolution.columns import ALIASES, NUMBER, evolve_columns
from engine.formats.evolution.promotion import holds, is_promotion

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


def f(name: str, kind: pa.DataType, *aliases: str, number: int | None = None) -> pa.Field:
    metadata = {}
    if aliases:
        metadata[ALIASES] = json.dumps(aliases).encode()
    if number is not None:
        metadata[NUMBER] = str(number).encode()
    return pa.field(name, kind, metadata=metadata)


class Columns:
    """A table's columns as schemas are added to them."""

    def __init__(self, *existing: pa.Field) -> None:
        self.fields: tuple[pa.Field, ...] = existing
        self.earlier: list[tuple[tuple[pa.Field, ...], Placement]] = []

    def add(self, *wanted: pa.Field, on_conflict: OnConflict = OnConflict.SIBLING) -> FieldProposal:
        proposal = evolve_columns(self.fields, wanted, earlier=self.earlier, on_conflict=on_conflict)
        self.fields = proposal.fields
        self.earlier.append((wanted, proposal.placement))
        return proposal

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.type) for field in self.fields}


def test_number_is_the_identity_whatever_the_name() -> None:
    columns = Columns()
    columns.add(f("total", INT, number=1), f("note", TEXT, number=2))
    proposal = columns.add(f("note", LONG, number=1), f("remark", TEXT, number=2))
    assert columns.types == {"total": "int64", "note": "string"}
    assert proposal.placement == {"note": "total", "remark": "note"}
    assert proposal.conflicts == ()


def test_name_under_another_number_is_another_column() -> None:
    columns = Columns()
    columns.add(f("a", INT, number=1))
    proposal = columns.add(f("a", INT, number=7))
    assert columns.types == {"a": "int32", "a__field_7": "int32"}
    assert proposal.placement == {"a": "a__field_7"}
    again = columns.add(f("a", INT, number=7), f("b", INT, number=1))
    assert again.placement == {"a": "a__field_7", "b": "a"}
    assert (again.conflicts, columns.types) == ((), {"a": "int32", "a__field_7": "int32"})


def test_numbers_count_within_their_own_message_only() -> None:
    columns = Columns()
    inner = pa.struct([f("x", INT, number=1)])
    columns.add(f("one", pa.list_(inner), number=1), f("two", pa.map_(TEXT, inner), number=2))
    renamed = pa.struct([f("y", LONG, number=1), f("x", TEXT, number=2)])
    proposal = columns.add(f("one", pa.list_(renamed), number=1), f("zwei", pa.map_(TEXT, inner), number=2))
    assert columns.types == {
        "one": "list<item: struct<x: int64, x__field_2: string>>",
        "two": "map<string, struct<x: int32>>",
    }
    assert proposal.placement == {"one[].y": "x", "one[].x": "x__field_2", "zwei": "two"}


def test_number_whose_type_changes_has_a_sibling_and_finds_both_again() -> None:
    columns = Columns()
    columns.add(f("a", INT, number=1))
    assert columns.add(f("b", TEXT, number=1)).placement == {"b": "a__string"}
    assert columns.add(f("c", TEXT, number=1)).placement == {"c": "a__string"}
    assert columns.add(f("c", LONG, number=1)).placement == {"c": "a"}
    assert columns.types == {"a": "int64", "a__string": "string"}


def test_column_that_no_known_schema_has_is_taken_by_its_name() -> None:
    columns = Columns(f("a", INT), f("b", INT))
    proposal = columns.add(f("a", INT, number=4), f("c", LONG, "b"))
    assert proposal.placement == {"c": "b"}
    assert columns.types == {"a": "int32", "b": "int64"}


def test_older_schema_that_is_met_after_the_one_that_renamed_its_field() -> None:
    columns = Columns()
    columns.add(f("b", LONG, "a"), f("s", pa.struct([f("y", INT, "x")]), "r"))
    proposal = columns.add(f("a", INT), f("r", pa.struct([f("x", INT)])))
    assert proposal.placement == {"a": "b", "r": "s", "r.x": "y"}
    assert columns.types == {"b": "int64", "s": "struct<y: int32>"}


def test_newer_knowledge_of_a_name_wins() -> None:
    columns = Columns()
    columns.add(f("a", INT))
    columns.add(f("b", INT, "a"))
    columns.add(f("a", INT), f("b", INT, "a"))
    assert columns.add(f("a", INT)).placement == {"a": "a__2"}
    assert columns.add(f("b", INT)).placement == {"b": "a"}
    assert columns.types == {"a": "int32", "a__2": "int32"}


def test_aliases_are_tried_in_their_order_and_no_column_is_given_twice() -> None:
    columns = Columns()
    columns.add(f("a", INT), f("b", INT))
    proposal = columns.add(f("c", INT, "x", "b", "a"), f("d", INT, "b", "a"), f("e", INT, "a"))
    assert proposal.placement == {"c": "b", "d": "a"}
    assert columns.types == {"a": "int32", "b": "int32", "e": "int32"}


def test_two_fields_that_read_as_one_path_never_share_a_column_nor_leave_a_struct_empty() -> None:
    nested, dotted = f("a", pa.struct([f("b", INT)])), f("a.b", TEXT)
    for wanted in ((nested, dotted), (dotted, nested)):
        columns = Columns()
        proposal = columns.add(*wanted)
        assert columns.types == {"a.b": "string"}
        assert proposal.placement == {"a": ""}
        assert proposal.unmapped == ("a.b: another field has the same path", "a: no field of it has a column")


def test_raw_gives_no_column_at_any_level_and_reports_it_each_time() -> None:
    columns = Columns()
    columns.add(f("a", INT), f("l", pa.list_(pa.struct([f("x", INT)]))))
    before = columns.types
    for _ in range(2):
        proposal = columns.add(f("a", TEXT), f("l", pa.list_(pa.struct([f("x", TEXT)]))), on_conflict=OnConflict.RAW)
        assert proposal.placement == {"a": "", "l[].x": ""}
        assert len(proposal.conflicts) == 2
    assert columns.types == before


def test_proposal_carries_no_metadata_into_the_table() -> None:
    columns = Columns()
    columns.add(f("a", pa.list_(pa.struct([f("x", INT, "y", number=1)])), "b"), f("m", pa.map_(TEXT, LONG), number=2))

    def walk(field: pa.Field) -> None:
        assert not field.metadata
        for index in range(field.type.num_fields):
            walk(field.type.field(index))

    for field in columns.fields:
        walk(field)


LEAVES = st.sampled_from([INT, LONG, pa.float32(), pa.float64(), TEXT, pa.decimal128(5, 2), pa.decimal128(9, 2)])
NAMES = st.sampled_from(["a", "b", "A", "c", "a__string", "a__2"])


def records(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[tuple[pa.Field, ...]]:
    one = st.tuples(NAMES, kinds, st.lists(NAMES, max_size=2), st.one_of(st.none(), st.integers(1, 4)))
    listed = st.lists(one, min_size=1, max_size=4, unique_by=lambda field: field[0])
    return listed.map(_as_fields)


def _as_fields(listed: list[tuple[str, pa.DataType, list[str], int | None]]) -> tuple[pa.Field, ...]:
    numbers: set[int | None] = set()
    made = []
    for name, kind, aliases, number in listed:
        own = None if number in numbers else number
        numbers.add(own)
        made.append(f(name, kind, *aliases, number=own))
    return tuple(made)


KINDS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_), inner.map(lambda kind: pa.map_(TEXT, kind)), records(inner).map(pa.struct)
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(records(KINDS), min_size=2, max_size=5), st.sampled_from(OnConflict))
def test_columns_stay_and_widen_and_every_field_has_one_that_holds_it(
    schemas: list[tuple[pa.Field, ...]], on_conflict: OnConflict
) -> None:
    columns = Columns()
    for wanted in schemas:
        before = columns.fields
        proposal = columns.add(*wanted, on_conflict=on_conflict)
        _check_grown(before, columns.fields)
        _check_placed(wanted, columns.fields, proposal.placement, "", on_conflict)
        assert columns.add(*wanted, on_conflict=on_conflict).fields == columns.fields, "a schema again adds nothing"


def _check_grown(before: tuple[pa.Field, ...], after: tuple[pa.Field, ...]) -> None:
    folded = [field.name.casefold() for field in after]
    assert len(set(folded)) == len(folded)
    assert [field.name for field in after[: len(before)]] == [field.name for field in before]
    for old, new in zip(before, after, strict=False):
        _check_wider(old.type, new.type)


def _check_wider(old: pa.DataType, new: pa.DataType) -> None:
    if pa.types.is_struct(old):
        _check_grown(tuple(old), tuple(new))
    elif pa.types.is_list(old):
        _check_wider(old.value_type, new.value_type)
    elif pa.types.is_map(old):
        _check_wider(old.item_type, new.item_type)
    else:
        assert old == new or is_promotion(old, new)


def _check_placed(
    wanted: tuple[pa.Field, ...], fields: tuple[pa.Field, ...], placement: Placement, path: str, on_conflict: OnConflict
) -> None:
    there = {field.name: field.type for field in fields}
    used = []
    for field in wanted:
        inner = f"{path}.{field.name}" if path else field.name
        column = placement.get(inner, field.name)
        if not column:
            assert on_conflict is OnConflict.RAW
            continue
        used.append(column)
        assert holds(there[column], field.type)
        kind, have = field.type, there[column]
        while pa.types.is_list(kind) or pa.types.is_map(kind):
            is_map = pa.types.is_map(kind)
            inner += "{}" if is_map else "[]"
            kind, have = (kind.item_type, have.item_type) if is_map else (kind.value_type, have.value_type)
        if pa.types.is_struct(kind):
            _check_placed(tuple(kind), tuple(have), placement, inner, on_conflict)
    assert len(set(used)) == len(used), "two fields in one column"


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        (TEXT, "string"),
        (pa.bool_(), "boolean"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.binary(), "binary"),
        (pa.binary(4), "fixed_4"),
        (pa.decimal128(10, 2), "decimal_10_2"),
        (pa.date32(), "date"),
        (pa.time64("us"), "time"),
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us", "UTC"), "timestamptz"),
        (pa.uuid(), "uuid"),
        (pa.struct([("x", INT)]), "struct"),
        (pa.list_(INT), "list"),
        (pa.map_(TEXT, INT), "map"),
    ],
)
def test_sibling_is_called_by_its_type(kind: pa.DataType, suffix: str) -> None:
    columns = Columns(f("a", INT))
    assert columns.add(f("a", kind)).placement == {"a": f"a__{suffix}"}
    assert columns.add(f("a", kind)).placement == {"a": f"a__{suffix}"}
    assert columns.types == {"a": "int32", f"a__{suffix}": str(kind)}
