"""Damage planted in a small warehouse, one kind at a time, and what ``fsck``, the daemon and consumers make of it.

``python -m tests.faults`` prints the table of all kinds. The engine, the rooms and ``floeberg`` may be imported here.
"""
