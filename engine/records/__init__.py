"""A block of Kafka records as flat arrays, and the digest that proves two blocks equal."""
