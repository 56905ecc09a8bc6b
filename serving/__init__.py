"""What the daemon answers over HTTP: records to the broker (log), tables to SQL engines (tables), its state to people (status).

In: requests. Out: bytes of the table. Imports the engine; the three doors do not know each other.
"""
