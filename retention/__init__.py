"""Ends history on purpose: horizons move, files that nothing needs any more go, and tables whose topics are gone.

In: the tables of topics that are led here, or that the broker has no more, log starts, the clock. Out: commits of the
table writer, tables dropped from the catalog, and deletions in the warehouse. Imports the engine, topics and workers;
docs/retention.md tells what each deletion needs.
"""
