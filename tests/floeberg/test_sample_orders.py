"""The sample orders are real Avro: an independent library reads them and writes the same bytes."""

from __future__ import annotations

import io
import json
from itertools import islice

import fastavro
import pytest

from floeberg.demo.sample_orders import ORDER_SCHEMA, ORDER_SCHEMA_ID, sample_order_blocks, sample_orders

_HEADER = b"\x00" + ORDER_SCHEMA_ID.to_bytes(4, "big")


def test_fastavro_reads_every_order_and_writes_the_same_bytes() -> None:
    schema = fastavro.parse_schema(json.loads(ORDER_SCHEMA))
    for key, value, timestamp_ms in sample_orders(2_000):
        assert value[:5] == _HEADER
        body = io.BytesIO(value[5:])
        order = fastavro.schemaless_reader(body, schema, None)
        assert body.read() == b""
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, order)
        assert written.getvalue() == value[5:]
        assert key == str(order["order_id"]).encode()
        assert order["created_at"].timestamp() * 1000 < timestamp_ms
        assert order["amount"] == pytest.approx(sum(item["quantity"] * item["price"] for item in order["items"]))


def test_values_average_about_160_bytes() -> None:
    (block,) = sample_order_blocks(20_000)
    assert 155 <= block.value.size_bytes / len(block) <= 165


def test_same_seed_gives_the_same_orders_and_another_seed_others() -> None:
    first = list(sample_orders(500, seed=5))
    assert first == list(islice(sample_orders(None, seed=5), 500))
    assert first != list(sample_orders(500, seed=6))


def test_ids_and_timestamps_rise_across_blocks() -> None:
    count = 70_000
    orders = list(sample_orders(count))
    assert len(orders) == count
    keys = [int(key) for key, _, _ in orders]
    assert keys == list(range(keys[0], keys[0] + count))
    timestamps = [timestamp_ms for _, _, timestamp_ms in orders]
    assert timestamps == sorted(timestamps)


def test_ids_beyond_the_encoders_width_are_refused() -> None:
    with pytest.raises(ValueError, match="order ids"):
        next(sample_orders(1, first_order_id=5))
