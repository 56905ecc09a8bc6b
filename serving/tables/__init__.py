"""The table door: Iceberg's REST catalog protocol, read-only, over the catalog that the table writer commits to.

In: HTTP requests of SQL engines. Out: namespaces, tables and their metadata; never a write, never a credential.
May import the engine, nothing else of ours.
"""
