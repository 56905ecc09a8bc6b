"""Sample orders: a seeded stream of realistic Avro records with the Confluent header, about 160 B a value.

For the demo, the tests and the benchmarks. The data compresses as a shop's would: order ids and timestamps rise,
a few customers and products are popular and most are not, amounts are sums of rounded prices, most orders have no
note. Values are put together by one gather over pools of encoded pieces, a million in about two seconds: an encoder
that walks each order would take longer to make the data than the program takes to tier it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.records.record_kernels import gather_spans
from engine.records.records import ByteSpans

ORDER_SCHEMA_ID = 101
FIRST_ORDER_ID = 700_000_000
FIRST_TIMESTAMP_MS = 1_760_000_000_000

_STATUSES = ("NEW", "PAID", "PACKED", "SHIPPED", "CANCELLED")
_STATUS_SHARES = (0.4, 0.25, 0.15, 0.15, 0.05)
_CHANNELS = ("web", "ios", "android", "store", "partner-api")
_COUNTRIES = ("US", "DE", "FR", "GB", "NL", "PL", "ES", "IT", "SE", "NO", "DK", "AT", "CH", "BE", "IE", "PT")
_MAIL_HOSTS = ("gmail.com", "yahoo.com", "outlook.com", "example.org")
_STREET_KINDS = ("St", "Ave", "Road", "Lane")


def _order_schema() -> str:
    address = {
        "type": "record",
        "name": "Address",
        "fields": [{"name": name, "type": "string"} for name in ("street", "city", "zip", "country")],
    }
    item = {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "sku", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "price", "type": "double"},
        ],
    }
    fields = [
        {"name": "order_id", "type": "long"},
        {"name": "customer_name", "type": "string"},
        {"name": "customer_email", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "tax", "type": "double"},
        {"name": "discount", "type": "double"},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": list(_STATUSES)}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "shipping", "type": address},
        {"name": "items", "type": {"type": "array", "items": item}},
        {"name": "channel", "type": "string"},
    ]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


ORDER_SCHEMA = _order_schema()
"""The writer's schema of every value, Avro JSON text."""

_BLOCK_ROWS = 65_536
_MAX_ITEMS = 2
_MEAN_GAP_MS = 4.0
_CUSTOMERS = 100_000
_PRODUCTS = 8_000
_NOTES = 20_000
_MAX_QUANTITY = 4
# Longer runs would outgrow the fixed widths below: zigzag varints of 5 bytes (order id) and 6 bytes (milliseconds).
_ORDER_IDS = range(2**27, 2**34)
_TIMESTAMPS_MS = range(2**34, 2**41)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderBlock:
    """``n`` orders: ``key`` the order id as text, ``value`` header and Avro body, ``timestamp_ms`` int64[n], rising."""

    key: ByteSpans
    value: ByteSpans
    timestamp_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.timestamp_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pieces:
    """Encoded pieces one after another in ``data``; each field has the position of its pieces (int64, one more)."""

    data: NDArray[np.uint8]
    customer: NDArray[np.int64]
    shipping: NDArray[np.int64]
    status: NDArray[np.int64]
    note: NDArray[np.int64]
    item: NDArray[np.int64]
    channel: NDArray[np.int64]
    item_head: NDArray[np.int64]
    price: NDArray[np.float64]


def _zigzag(value: int) -> bytes:
    """One Avro int or long (Avro specification, Binary Encoding)."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _zigzag(len(encoded)) + encoded


def _words(rng: np.random.Generator, count: int, shortest: int, longest: int) -> list[str]:
    letters = rng.integers(ord("a"), ord("z") + 1, (count, longest), np.uint8)
    lengths = rng.integers(shortest, longest + 1, count).tolist()
    return [row[:length].decode() for row, length in zip(map(bytes, letters), lengths, strict=True)]


@lru_cache(maxsize=2)
def _pieces(seed: int) -> _Pieces:
    rng = np.random.default_rng([seed, 0])
    first, last = _words(rng, 800, 4, 8), _words(rng, 3000, 5, 10)
    words, cities = _words(rng, 1500, 3, 8), [word.title() for word in _words(rng, 400, 5, 11)]
    customer, shipping = [], []
    choices = rng.integers(0, [800, 3000, 999, 1500, 400, 90_000], (_CUSTOMERS, 6)).tolist()
    for row, (given, family, number, street, city, zip_code) in enumerate(choices):
        name = f"{first[given].title()} {last[family].title()}"
        mail = f"{first[given]}.{last[family]}{row % 97}@{_MAIL_HOSTS[row % len(_MAIL_HOSTS)]}"
        customer.append(_string(name) + _string(mail))
        address = (
            f"{number + 1} {words[street].title()} {_STREET_KINDS[row % len(_STREET_KINDS)]}",
            cities[city],
            f"{10_000 + zip_code}",
            _COUNTRIES[row % len(_COUNTRIES)],
        )
        shipping.append(b"".join(map(_string, address)))
    picks = rng.integers(0, len(words), (_NOTES, 7)).tolist()
    sizes = rng.integers(2, 8, _NOTES).tolist()
    note = [b"\x02" + _string(" ".join(words[w] for w in row[:size])) for row, size in zip(picks, sizes, strict=True)]
    price = np.round(rng.gamma(2, 20, _PRODUCTS) + 1, 2)
    item = [
        _string(f"SKU-{sku:06d}") + _zigzag(quantity) + cost.tobytes()
        for sku, cost in zip(rng.choice(999_999, _PRODUCTS, False).tolist(), price.astype("<f8"), strict=True)
        for quantity in range(1, _MAX_QUANTITY + 1)
    ]
    pools: dict[str, Sequence[bytes]] = {
        "customer": customer,
        "shipping": shipping,
        "status": [_zigzag(index) for index in range(len(_STATUSES))],
        "note": [b"\x00", *note],
        # The last item is empty: what an order with one item has in its second place.
        "item": [*item, b""],
        # An array is one block (its count) and a zero; the zero is put before the channel that follows it.
        "channel": [_zigzag(0) + _string(channel) for channel in _CHANNELS],
        "item_head": [_zigzag(count) for count in range(1, _MAX_ITEMS + 1)],
    }
    at, bounds = 0, {}
    for name, pool in pools.items():
        bounds[name] = at + np.concatenate([[0], np.cumsum([len(piece) for piece in pool])]).astype(np.int64)
        at = int(bounds[name][-1])
    data = np.frombuffer(b"".join(piece for pool in pools.values() for piece in pool), np.uint8)
    return _Pieces(data=data, price=price, **bounds)


def _varints(values: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Zigzag varints of non-negative values that all take ``width`` bytes: uint8[n, width]."""
    out: NDArray[np.uint8] = (((values[:, None] << 1) >> (7 * np.arange(width))) & 0x7F).astype(np.uint8)
    out[:, :-1] |= 0x80
    return out


def _block(
    pieces: _Pieces, *, seed: int, index: int, schema_id: int, order_ids: NDArray[np.int64], after_ms: int
) -> OrderBlock:
    count = len(order_ids)
    rng = np.random.default_rng([seed, 1, index])
    # Pareto: a tenth of the customers place most orders. The multiplication spreads the popular ones over the pool.
    customer = np.minimum((rng.pareto(1.1, count) * 4000).astype(np.int64), _CUSTOMERS - 1) * 7919 % _CUSTOMERS
    product = np.minimum((rng.pareto(1.0, (count, _MAX_ITEMS)) * 300).astype(np.int64), _PRODUCTS - 1)
    quantity = rng.integers(1, _MAX_QUANTITY + 1, (count, _MAX_ITEMS))
    item_count = rng.integers(1, _MAX_ITEMS + 1, count)
    absent = np.arange(_MAX_ITEMS) >= item_count[:, None]
    amount = np.round(np.where(absent, 0.0, pieces.price[product] * quantity).sum(1), 2)
    discount = np.where(rng.random(count) < 0.2, np.round(amount * 0.1, 2), 0.0)
    timestamp_ms = after_ms + np.cumsum(rng.exponential(_MEAN_GAP_MS, count)).astype(np.int64)
    created_ms = timestamp_ms - rng.integers(1, 400, count) * 1000
    note = np.where(rng.random(count) < 0.15, rng.integers(1, _NOTES + 1, count), 0)
    item = np.where(absent, _PRODUCTS * _MAX_QUANTITY, product * _MAX_QUANTITY + quantity - 1)
    status = rng.choice(len(_STATUSES), count, p=_STATUS_SHARES)
    channel = rng.integers(0, len(_CHANNELS), count)

    header = np.frombuffer(b"\x00" + schema_id.to_bytes(4, "big"), np.uint8)
    numbers = np.stack([amount, np.round(amount * 0.19, 2), discount], 1).astype("<f8").view(np.uint8)
    own = np.concatenate([np.tile(header, (count, 1)), _varints(order_ids, 5), numbers, _varints(created_ms, 6)], 1)
    head, middle = 10, own.shape[1]  # own bytes: [0, head) come before the customer's piece, [head, middle) after it
    own_start = len(pieces.data) + np.arange(count, dtype=np.int64) * middle
    places = [(own_start, np.full(count, head)), _place(pieces.customer, customer)]
    places += [(own_start + head, np.full(count, middle - head)), _place(pieces.status, status)]
    places += [_place(pieces.note, note), _place(pieces.shipping, customer), _place(pieces.item_head, item_count - 1)]
    places += [_place(pieces.item, item[:, place]) for place in range(_MAX_ITEMS)] + [_place(pieces.channel, channel)]
    start = np.stack([place[0] for place in places], 1).ravel()
    length = np.stack([place[1] for place in places], 1).ravel().astype(np.int32)
    parts = ByteSpans(data=np.concatenate([pieces.data, own.ravel()]), start=start, length=length)
    offsets, data, _ = gather_spans(parts.arrays)
    bounds = offsets[:: len(places)]
    value = ByteSpans(data=data, start=bounds[:-1].copy(), length=np.diff(bounds).astype(np.int32))
    key = ByteSpans.from_list([b"%d" % order_id for order_id in order_ids.tolist()])
    return OrderBlock(key=key, value=value, timestamp_ms=timestamp_ms)


def _place(bounds: NDArray[np.int64], choice: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return bounds[choice], bounds[choice + 1] - bounds[choice]


def sample_order_blocks(
    count: int | None,
    *,
    seed: int = 1,
    schema_id: int = ORDER_SCHEMA_ID,
    first_order_id: int = FIRST_ORDER_ID,
    first_timestamp_ms: int = FIRST_TIMESTAMP_MS,
) -> Iterator[OrderBlock]:
    """``count`` orders (None: without end) in blocks of up to 65 536; the same arguments give the same bytes.

    Order ``i`` does not depend on ``count``. ``timestamp_ms`` rises by 4 ms on average from ``first_timestamp_ms``.
    Raises ValueError when ids or timestamps leave the widths the encoder is made for.
    """
    pieces = _pieces(seed)
    made, after_ms, index = 0, first_timestamp_ms, 0
    while count is None or made < count:
        order_ids = first_order_id + made + np.arange(_BLOCK_ROWS, dtype=np.int64)
        if int(order_ids[0]) not in _ORDER_IDS or int(order_ids[-1]) not in _ORDER_IDS:
            raise ValueError(f"order ids must stay within [{_ORDER_IDS.start}, {_ORDER_IDS.stop})")
        if after_ms - 400_000 not in _TIMESTAMPS_MS or after_ms + 10_000_000 not in _TIMESTAMPS_MS:
            raise ValueError(f"timestamps must stay within [{_TIMESTAMPS_MS.start}, {_TIMESTAMPS_MS.stop}) ms")
        block = _block(pieces, seed=seed, index=index, schema_id=schema_id, order_ids=order_ids, after_ms=after_ms)
        wanted = _BLOCK_ROWS if count is None else min(_BLOCK_ROWS, count - made)
        rows = slice(0, wanted)
        yield OrderBlock(
            key=block.key.select(rows), value=block.value.select(rows), timestamp_ms=block.timestamp_ms[rows]
        )
        made, after_ms, index = made + wanted, int(block.timestamp_ms[-1]), index + 1


def sample_orders(
    count: int | None,
    *,
    seed: int = 1,
    schema_id: int = ORDER_SCHEMA_ID,
    first_order_id: int = FIRST_ORDER_ID,
    first_timestamp_ms: int = FIRST_TIMESTAMP_MS,
) -> Iterator[tuple[bytes, bytes, int]]:
    """The orders of ``sample_order_blocks`` one by one, for a producer: (key, value, timestamp_ms)."""
    blocks = sample_order_blocks(
        count,
        seed=seed,
        schema_id=schema_id,
        first_order_id=first_order_id,
        first_timestamp_ms=first_timestamp_ms,
    )
    for block in blocks:
        value_start = block.value.start.tolist()
        value_end = (block.value.start + block.value.length).tolist()
        data = block.value.data.tobytes()
        keys = block.key.to_list()
        for row, timestamp_ms in enumerate(block.timestamp_ms.tolist()):
            key = keys[row]
            assert key is not None, "every order has a key"
            yield key, data[value_start[row] : value_end[row]], timestamp_ms
