"""Replaces files of a table by better ones with the same records: for now, records that get columns later.

In: the tables of topics that are led here. Out: commits of the table writer. Imports the engine, topics and workers;
docs/repair.md tells what happens at each step and after a crash at each.
"""
