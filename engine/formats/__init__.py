"""Value codecs (Avro, Protobuf, JSON, CSV, text, raw; Debezium): bytes to columns and back, a room for each format.

In: byte spans and schema texts. Out: Arrow columns, a verdict a record, byte spans again. Nothing here knows of tables,
files, brokers or registries, and no format knows another.
"""
