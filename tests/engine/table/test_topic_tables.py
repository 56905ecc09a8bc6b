"""Tables by topic: names, incarnations, clusters, settings, columns that are added."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import Invalid
from engine.formats.codec import CodecSpec
from engine.table.catalog.access import table_identifier
from engine.table.columns import TableLayout
from engine.table.ledger import Outcome
from tests.engine.table.table_examples import (
    CLUSTER_ID,
    TEXT,
    TEXT_FIELDS,
    TOPIC,
    TOPIC_ID,
    append_of,
    catalog_in,
    ensure_table,
    open_writer,
    outcomes,
    reopened,
    stored_offsets,
)

OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBQ"


def test_topic_with_dots_has_a_safe_name_and_its_real_one_in_a_property(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer, topic="shop.orders.v1")
    assert table.identifier == ("kafka", "shop_orders_v1") == table_identifier("kafka", "shop.orders.v1")
    assert table.topic == "shop.orders.v1"
    assert outcomes(writer, table, append_of(table, 0, 5)) == [Outcome.COMMITTED]
    assert open_writer(tmp_path).open("shop.orders.v1", TOPIC_ID) is not None


def test_topics_do_not_share_anything(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    orders, payments = ensure_table(writer), ensure_table(writer, topic="payments", topic_id=OTHER_ID)
    outcomes(writer, orders, append_of(orders, 0, 5))
    outcomes(writer, payments, append_of(payments, 70, 75))
    assert stored_offsets(tmp_path, orders) == list(range(5))
    assert stored_offsets(tmp_path, payments) == list(range(70, 75))
    with pytest.raises(Invalid, match="topic id"):
        writer.commit(orders, [append_of(payments, 5, 6)])


def test_topic_created_again_gets_a_new_table_and_the_old_one_is_kept(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    old = ensure_table(writer)
    outcomes(writer, old, append_of(old, 0, 50))
    assert writer.open(TOPIC, OTHER_ID) is None
    new = ensure_table(writer, topic_id=OTHER_ID)
    assert new.location != old.location
    assert new.ledger == {}
    outcomes(writer, new, append_of(new, 0, 10))
    kept = reopened(tmp_path)
    assert kept.identifier == ("kafka", f"orders__{TOPIC_ID}")
    assert stored_offsets(tmp_path, kept) == list(range(50))
    assert stored_offsets(tmp_path, new) == list(range(10))


def test_late_segments_of_a_topic_that_is_gone_leave_the_plain_name_to_the_next(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    living = ensure_table(writer, topic_id=OTHER_ID)
    outcomes(writer, living, append_of(living, 0, 10))
    gone = ensure_table(writer, is_gone=True)
    outcomes(writer, gone, append_of(gone, 0, 50))
    found = [open_writer(tmp_path).open(TOPIC, topic_id) for topic_id in (OTHER_ID, TOPIC_ID)]
    assert [table and table.identifier for table in found] == [("kafka", "orders"), ("kafka", f"orders__{TOPIC_ID}")]
    assert stored_offsets(tmp_path, living) == list(range(10))
    assert stored_offsets(tmp_path, gone) == list(range(50))


def test_daemon_that_has_not_heard_of_the_new_topic_writes_to_the_old_table(tmp_path: Path) -> None:
    stale, fresh = open_writer(tmp_path), open_writer(tmp_path)
    old = ensure_table(stale)
    outcomes(stale, old, append_of(old, 0, 50))
    new = ensure_table(fresh, topic_id=OTHER_ID)
    outcomes(fresh, new, append_of(new, 0, 10))
    assert outcomes(stale, old, append_of(old, 50, 60)) == [Outcome.COMMITTED]
    assert ensure_table(open_writer(tmp_path)).identifier == ("kafka", f"orders__{TOPIC_ID}")
    assert stored_offsets(tmp_path, reopened(tmp_path)) == list(range(60))
    assert stored_offsets(tmp_path, new) == list(range(10))


def test_crash_between_renaming_and_creating_is_made_good(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    old = ensure_table(writer)
    outcomes(writer, old, append_of(old, 0, 5))
    catalog_in(tmp_path).rename_table(old.identifier, ("kafka", f"orders__{TOPIC_ID}"))
    assert ensure_table(open_writer(tmp_path), topic_id=OTHER_ID).identifier == ("kafka", "orders")
    assert stored_offsets(tmp_path, reopened(tmp_path)) == list(range(5))


def test_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    catalog.create_namespace("kafka")
    catalog.create_table(("kafka", TOPIC), pa.schema([pa.field("x", pa.int32())]))
    writer = open_writer(tmp_path)
    for ask in (lambda: writer.open(TOPIC, TOPIC_ID), lambda: ensure_table(writer)):
        with pytest.raises(Invalid, match="not a topic's"):
            ask()


def test_same_topic_of_another_cluster_is_refused(tmp_path: Path) -> None:
    ensure_table(open_writer(tmp_path))
    writer = open_writer(tmp_path)
    for topic_id in (TOPIC_ID, OTHER_ID):
        with pytest.raises(Invalid, match="cluster"):
            writer.ensure(
                topic=TOPIC,
                topic_id=topic_id,
                cluster_id="another",
                layout=TableLayout(),
                codec=TEXT,
                value_fields=TEXT_FIELDS,
            )
    assert reopened(tmp_path).cluster_id == CLUSTER_ID


def test_changed_settings_of_a_topic_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    ensure_table(writer)
    for layout, codec in ((TableLayout(key="raw"), TEXT), (TableLayout(), CodecSpec(name="raw"))):
        with pytest.raises(Invalid, match="settings"):
            writer.ensure(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                cluster_id=CLUSTER_ID,
                layout=layout,
                codec=codec,
                value_fields=TEXT_FIELDS,
            )


def test_value_column_that_is_missing_is_added(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    table = ensure_table(writer)
    outcomes(writer, table, append_of(table, 0, 5))
    more = (*TEXT_FIELDS, pa.field("nested", pa.struct([pa.field("a", pa.int32())])))
    deeper = (*TEXT_FIELDS, pa.field("nested", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])))
    for fields in (more, deeper):
        table = writer.ensure(
            topic=TOPIC,
            topic_id=TOPIC_ID,
            cluster_id=CLUSTER_ID,
            layout=TableLayout(),
            codec=TEXT,
            value_fields=fields,
        )
        assert table.value_fields == fields
    assert reopened(tmp_path).value_fields == deeper
    assert stored_offsets(tmp_path, table) == list(range(5))
