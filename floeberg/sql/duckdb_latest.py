"""Whether a ``__latest`` table shows what it says: compared, by other eyes, with the topic's own table.

pyiceberg reads both, delete files and all, and DuckDB finds the newest record of each key; nothing of ``latest/`` is
asked, and its index of keys neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from engine.fsck.report import Damage, Finding
from engine.offset_range import OffsetRange
from engine.table.catalog import access as catalogs
from engine.table.latest_line import LatestLine, parse_lines
from engine.table.properties import KIND_PROPERTY, LATEST_KIND, TOPIC_ID_PROPERTY
from engine.table.topic_table import TopicTable

_NEXT_STEP = "drop the __latest table, without purging its files: it is built again; and report it, with the log"

_NOT_SHOWN = "not shown"

_MEMORY = "1GB"
"""Of DuckDB; what does not fit is on disk."""

_DIFFERENCES = """
    WITH newest AS (
        SELECT part, max(place) AS place, arg_max(is_tombstone, place) AS is_tombstone
        FROM stream JOIN lines USING (part) WHERE place < line_end AND has_key GROUP BY part, {key}
    ), expected AS (
        SELECT part, place FROM newest WHERE NOT is_tombstone
    ), shown AS (
        SELECT part, place FROM latest JOIN lines USING (part) WHERE place >= table_start
    )
    SELECT '{not_shown}' AS what, part, count(*), min(place) FROM (FROM expected EXCEPT ALL FROM shown) GROUP BY part
    UNION ALL
    SELECT 'shown' AS what, part, count(*), min(place) FROM (FROM shown EXCEPT ALL FROM expected) GROUP BY part
    ORDER BY part, what
"""


def latest_findings(catalog: Catalog, table: TopicTable) -> tuple[Finding, ...]:
    """What is wrong with the ``__latest`` table of a topic's; nothing where it has none.

    Partitions of which records were erased since its last commit are left out: they are built again. Raises
    Unavailable, Corrupt.
    """
    identifier = catalogs.latest_identifier(table.identifier)
    latest, stream = catalogs.load(catalog, identifier), catalogs.load(catalog, table.identifier)
    if latest is None or stream is None or not _is_of(latest, table):
        return ()
    lines = {
        partition: line
        for partition, line in parse_lines(latest.metadata.properties).items()
        if partition in table.ledger and line.erased == _erased(table, partition)
    }
    with catalogs.translated_errors("a file of the tables can't be read", table=identifier):
        return tuple(_findings(table, identifier, _differences(table, stream, latest, lines)))


def _is_of(latest: Table, table: TopicTable) -> bool:
    properties = latest.metadata.properties
    return bool(properties.get(KIND_PROPERTY) == LATEST_KIND and properties.get(TOPIC_ID_PROPERTY) == table.topic_id)


def _erased(table: TopicTable, partition: int) -> int:
    erased = table.erased.get(partition)
    return 0 if erased is None else erased.record_count


def _differences(
    table: TopicTable, stream: Table, latest: Table, lines: Mapping[int, LatestLine]
) -> list[tuple[str, int, int, int]]:
    """(what, partition, how many records, the first one's offset)."""
    import duckdb

    layout = table.layout
    wanted = [_name(table, stream, name) for name in (layout.partition, layout.offset, layout.is_null)]
    part, place, is_null = map(_quoted, wanted)
    names = {field.name for field in table.iceberg_schema.fields}
    # A key's bytes are told by its column, what stands beside it where that is not enough, and its schema.
    keys = [
        _name(table, stream, name)
        for name in (layout.key_column, layout.key_raw, layout.key_schema_id)
        if name in names
    ]
    has_key = " OR ".join(f"{_quoted(name)} IS NOT NULL" for name in keys)
    shown = [_name(table, latest, name) for name in (layout.partition, layout.offset)]
    with TemporaryDirectory(prefix="floeberg-fsck-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = {_text(folder)}; SET memory_limit = {_text(_MEMORY)}")
        connection.execute("CREATE TABLE lines (part INT, line_end BIGINT, table_start BIGINT)")
        for number, line in lines.items():
            bounds = [number, line.end, table.ledger[number].table_start]
            connection.execute("INSERT INTO lines VALUES (?, ?, ?)", bounds)
        rows = stream.scan(selected_fields=(*wanted, *keys)).to_arrow_batch_reader()
        visible = latest.scan(selected_fields=tuple(shown)).to_arrow_batch_reader()
        connection.register("stream_rows", rows)
        connection.register("latest_rows", visible)
        connection.execute(
            f"CREATE VIEW stream AS SELECT *, {part} AS part, {place} AS place, {is_null} AS is_tombstone, "
            f"{has_key} AS has_key FROM stream_rows"
        )
        connection.execute(
            f"CREATE VIEW latest AS SELECT {_quoted(shown[0])} AS part, {_quoted(shown[1])} AS place FROM latest_rows"
        )
        found: list[tuple[str, int, int, int]] = connection.execute(
            _DIFFERENCES.format(not_shown=_NOT_SHOWN, key=", ".join(map(_quoted, keys)))
        ).fetchall()
        return found


def _findings(
    table: TopicTable, identifier: catalogs.Identifier, differences: list[tuple[str, int, int, int]]
) -> Iterator[Finding]:
    for what, partition, count, first in differences:
        meant = (
            "newest records of their keys are not shown"
            if what == "not shown"
            else "records are shown that are not the newest"
        )
        yield Finding(
            damage=Damage.LATEST_DIFFERS,
            message=f"{'.'.join(identifier)}: {count} {meant}, the first at offset {first}",
            next_step=_NEXT_STEP,
            topic=table.topic,
            partition=partition,
            range=OffsetRange(start=first, end=first + 1),
        )


def _name(table: TopicTable, loaded: Table, column: str) -> str:
    """What a column of ours is called by engines: another program may have renamed it."""
    found: str = loaded.schema().find_column_name(table.iceberg_schema.find_field(column).field_id)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
