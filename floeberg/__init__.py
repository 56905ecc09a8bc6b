"""The program: settings, command line, the daemon that wires the rooms, the demo.

In: ``floeberg.toml`` and the environment. Out: running loops, doors and reports. May import every other room.
"""
