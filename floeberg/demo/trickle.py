"""Orders without end for a demo that is kept: ``python -m floeberg.demo.trickle BOOTSTRAP FIRST_ORDER_ID``."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

from floeberg.demo.orders import PARTITIONS, PRODUCER_SETTINGS, TOPIC, TRICKLE_PER_SECOND, live_orders


def main() -> None:
    bootstrap, first_order_id = sys.argv[1], int(sys.argv[2])
    producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER_SETTINGS})
    for number, (key, value, timestamp_ms) in enumerate(live_orders(first_order_id)):
        producer.produce(TOPIC, value, key, number % PARTITIONS, timestamp=timestamp_ms)
        producer.poll(0)
        time.sleep(1 / TRICKLE_PER_SECOND)


if __name__ == "__main__":
    main()
