"""A format that is entered in one place goes from the settings to a table's rows and back to its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.formats.envelopes.debezium import image_column
from engine.formats.format_facts import FORMATS
from engine.offset_range import OffsetRange
from engine.reading.file_index import FileIndex
from engine.reading.log_reader import LogReader
from floeberg.cat.record_printer import RecordPrinter
from floeberg.cat.stored_records import stored_records
from floeberg.settings import Settings
from floeberg.settings.file import load_settings
from floeberg.settings.rooms import topic_rules
from floeberg.settings.schema_sources import SchemaSources
from floeberg.setup.check_result import Verdict
from floeberg.setup.checks import check_schemas
from tests.support.pipes_format import PIPES
from tests.tiering.tiering_world import TieringWorld, report_of
from topics.topic_rule import TopicRule

VALUES = [b"\0\0\0\0\1ana;berlin", b"\0\0\0\0\1BO;ULM", None, b"\0\0\0\0\2cy;bonn;7"]
KEYS = [b"\0\0\0\0\1k;1", b"\0\0\0\0\1k;2", b"\0\0\0\0\1k;3", None]


@pytest.fixture(autouse=True)
def _entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, PIPES.name, PIPES)


def load(folder: Path, separator: str, *, more: str = "") -> Settings:
    text = f"""
        broker = {{bootstrap = "localhost:9092", log_dirs = ["/kafka"]}}
        [[topics]]
        value = "pipes"
        pipes = {{separator = "{separator}"{more}}}
        key = "pipes"
        key_pipes = {{separator = ";"}}
        schemas = "schemas"
        """
    (folder / "floeberg.toml").write_text(text)
    return load_settings(folder / "floeberg.toml")


def rules(world: TieringWorld, separator: str) -> tuple[TopicRule, ...]:
    return topic_rules(load(world.root, separator), SchemaSources(world.root, world.clock))


def test_new_format_goes_from_settings_to_rows_and_back(world: TieringWorld) -> None:
    (world.root / "schemas").mkdir()
    for number, names in ((1, "name,town"), (2, "name,town,floor")):
        (world.root / "schemas" / f"{number}.pipes").write_text(names)
    (checked,) = check_schemas(load(world.root, ";"), world.clock)
    assert (checked.verdict, "2 schemas" in checked.message) == (Verdict.GOOD, True)
    (partition,) = world.broker.create_topic("people")
    world.broker.append_segment(partition, VALUES, keys=KEYS)
    loop = world.loop(rules=rules(world, ";"))
    reports = [loop.cycle() for _ in range(2)]  # the first finds which schemas the table needs
    assert [report_of(report, partition).problem for report in reports] == [None, None]
    table = world.table(partition)
    rows = world.catalog.load_table(table.identifier).scan().to_arrow().sort_by("kafka_offset").to_pydict()
    assert rows["name"] == ["ana", "bo", None, "cy"]
    assert rows["floor"] == [None, None, None, "7"]
    assert rows["pipes_spelling"] == [None, "upper", None, None]
    assert [key and key["town"] for key in rows["kafka_key"]] == ["1", "2", "3", None]
    assert rows["kafka_value_raw"] == rows["kafka_key_raw"] == [None] * 4
    reader = LogReader(file_index=FileIndex())
    blocks = list(reader.records(table, 0, OffsetRange(start=0, end=4)))
    assert [value for block in blocks for value in block.value.to_list()] == VALUES
    assert [key for block in blocks for key in block.key.to_list()] == KEYS
    printer = RecordPrinter.of(table, form=None, columns=(), as_json=True, key=None)
    pieces = stored_records(reader, table, 0, OffsetRange(start=0, end=4))
    shown = [line.decode() for piece in pieces for line in printer.lines(*piece)]
    assert ("bo" in shown[1], "pipes_spelling" in shown[1]) == (True, False)
    reader.close()
    (rule,) = rules(world, "|")
    with pytest.raises(Invalid, match=r'pipes.separator = "\|".*was made for pipes.separator = ";"'):
        rule.check_table(table)
    assert image_column("pipes_spelling") == "after_pipes_spelling"


def test_options_of_a_new_format_are_checked_by_it(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="pipes: a separator is one character"):
        load(tmp_path, "ab")
    with pytest.raises(Invalid, match="pipes, colour: is no setting"):
        load(tmp_path, "a", more=", colour = 1")
