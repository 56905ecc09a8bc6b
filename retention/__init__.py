"""Ends history on purpose: horizons move, files that nothing needs any more go.

In: the tables of topics that are led here, their brokers' log starts, the clock. Out: commits of the table writer, and
deletions in the warehouse. Imports the engine, topics and workers; docs/retention.md tells what each deletion needs.
"""
