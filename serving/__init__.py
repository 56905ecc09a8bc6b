"""What the daemon answers over HTTP: records to the broker, tables to SQL engines, its state to people.

In: requests. Out: bytes of the table. Imports the engine; the three doors do not know each other.
"""
