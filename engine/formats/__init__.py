"""Value codecs (Avro, text, raw): the bytes of a record's value to typed columns and back, and where schemas come from.

In: byte spans and schema texts. Out: Arrow columns, a verdict a record, byte spans again. Imports engine's leaf modules
only; nothing here knows of tables, files or brokers.
"""
