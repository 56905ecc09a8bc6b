"""Value codecs (Avro, Protobuf, JSON, CSV, text, raw; Debezium): bytes to columns and back; where schemas come from.

In: byte spans and schema texts. Out: Arrow columns, a verdict a record, byte spans again. Imports engine's leaf modules
only; nothing here knows of tables, files or brokers.
"""
