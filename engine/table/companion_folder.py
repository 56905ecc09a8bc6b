"""Where files of a table lie that Iceberg knows nothing of: beside the table's folder, and not in it.

What lies under a table's location and is named by no snapshot is an orphan to every engine: Spark's
``remove_orphan_files`` deletes it. The folder is the location with a suffix, so it is found without being named.
"""

from __future__ import annotations

_SUFFIX = "-floeberg"


def companion_folder(location: str) -> str:
    """The folder that belongs to the table at ``location``."""
    return f"{location.rstrip('/')}{_SUFFIX}"


def schema_file_path(location: str, schema_id: int, checksum: int) -> str:
    """Of a writer's schema that is too long for a property; ``checksum`` CRC-32C of its text."""
    return f"{companion_folder(location)}/schemas/{schema_id}-{checksum:08x}.txt"


def retype_folder(location: str) -> str:
    """Of the plan by which the table is getting another format, and of what was done by it."""
    return f"{companion_folder(location)}/retype"


def folders_of_no_use_without_it(location: str) -> tuple[str, ...]:
    """What goes with a table that is dropped; reports of erasures outlive it."""
    return (*(f"{companion_folder(location)}/{name}" for name in ("schemas", "log_door")), retype_folder(location))


def erasure_folder(location: str) -> str:
    """Of the reports of erasures."""
    return f"{companion_folder(location)}/erasures"


def auxiliary_folder(location: str, partition: int) -> str:
    """Of the log door's objects for one partition."""
    return f"{companion_folder(location)}/log_door/p={partition}"


def old_auxiliary_folder(location: str, partition: int) -> str:
    """Where they were kept once; they are still read there."""
    return f"{location.rstrip('/')}/log_door/p={partition}"
