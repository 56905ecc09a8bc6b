"""Schemas kept on disk: what was put comes back, whole or not at all, and from no other registry."""

from __future__ import annotations

from pathlib import Path

from engine.schemas.cache import SchemaCache
from engine.schemas.text import WrittenSchema

SCHEMA = WrittenSchema(schema_type="PROTOBUF", text='import "ä.proto";', references={"ä.proto": "x", "a": "y"})


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_schema_comes_back_as_it_was_put_with_its_references_in_order(tmp_path: Path) -> None:
    SchemaCache(tmp_path, "here").put(7, SCHEMA)
    found = SchemaCache(tmp_path, "here").get(7)
    assert found == SCHEMA
    assert found is not None
    assert list(found.references) == ["ä.proto", "a"]
    assert SchemaCache(tmp_path, "here").get(8) is None
    assert SchemaCache(tmp_path / "absent", "here").get(7) is None


def test_two_registries_never_mix_even_where_a_file_was_moved(tmp_path: Path) -> None:
    here, there = SchemaCache(tmp_path, "here"), SchemaCache(tmp_path, "there")
    here.put(7, SCHEMA)
    assert there.get(7) is None
    there.put(7, WrittenSchema(schema_type="AVRO", text='"int"'))
    of_here, of_there = sorted(files_of(tmp_path), key=lambda path: b'"there"' in path.read_bytes())
    of_there.write_bytes(of_here.read_bytes())
    assert (here.get(7), there.get(7)) == (SCHEMA, None)
    of_here.rename(of_here.with_name("9.json"))
    assert SchemaCache(tmp_path, "here").get(9) is None


def test_every_damage_to_a_file_makes_it_as_if_it_were_not_there(tmp_path: Path) -> None:
    cache = SchemaCache(tmp_path, "here")
    cache.put(7, SCHEMA)
    (file,) = files_of(tmp_path)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert cache.get(7) is None
    for position in range(len(whole)):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert cache.get(7) in (None, SCHEMA), "of the checksum's letters either case is read"
    cache.put(7, SCHEMA)
    assert cache.get(7) == SCHEMA


def test_folder_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = SchemaCache(tmp_path / "file", "here")
    cache.put(7, SCHEMA)
    assert cache.get(7) is None
    assert files_of(tmp_path) == [tmp_path / "file"]
