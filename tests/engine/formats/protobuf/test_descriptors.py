"""Texts and descriptor sets become one stored form, which the runtime alone can read again."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from engine.errors import Invalid, Unavailable
from engine.formats.protobuf import descriptors as protobuf_descriptors
from engine.formats.protobuf.descriptors import compile_proto, load_file, read_descriptor_set

CITY = 'syntax = "proto2"; package geo; message City { required string name = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "geo/city.proto";
import "google/protobuf/timestamp.proto";
import "google/type/money.proto";
import "confluent/meta.proto";
import "confluent/types/decimal.proto";
message Order {
  geo.City city = 1;
  google.protobuf.Timestamp at = 2;
  google.type.Money price = 3 [(confluent.field_meta).doc = "gross"];
  confluent.type.Decimal tax = 4;
}
"""


def test_schema_and_its_imports_become_one_set_with_its_own_file_last() -> None:
    text = compile_proto(ORDER, {"geo/city.proto": CITY})
    files = [file.name for file in FileDescriptorSet.FromString(base64.b64decode(text)).file]
    assert files[-1] == "schema.proto"
    assert files.index("geo/city.proto") < len(files) - 1
    assert list(load_file(text).message_types_by_name) == ["Order"]


def test_reference_of_the_schemas_own_file_name_is_kept_apart() -> None:
    importing = 'syntax = "proto3"; import "schema.proto"; message Mine { geo.City city = 1; }'
    text = compile_proto(importing, {"schema.proto": CITY})
    assert list(load_file(text).message_types_by_name) == ["Mine"]


def test_editions_tell_the_presence_of_each_field() -> None:
    text = compile_proto(
        'edition = "2023"; message A { int32 x = 1; string y = 2 [features.field_presence = IMPLICIT]; }', {}
    )
    assert [field.has_presence for field in load_file(text).message_types_by_name["A"].fields] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message", "protoc refuses the schema: schema.proto:1:8: Expected message name"),
        ('syntax = "proto3"; import "nope.proto";', "nope.proto: File not found"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
    ],
)
def test_text_that_is_no_schema_is_invalid_with_what_protoc_says(text: str, said: str) -> None:
    with pytest.raises(Invalid) as raised:
        compile_proto(text, {})
    assert said in raised.value.problem
    assert "/" not in raised.value.problem


@pytest.mark.parametrize("name", ["../x.proto", "/x.proto", "", "a\0b", "a/../../x.proto"])
def test_import_name_that_leaves_the_folder_is_invalid(name: str) -> None:
    with pytest.raises(Invalid, match="import"):
        compile_proto('syntax = "proto3";', {name: CITY})


@pytest.mark.parametrize("text", ["", "no base64!", base64.b64encode(b"\xff\xff").decode()])
def test_stored_text_that_is_no_descriptor_set_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        load_file(text)


def test_descriptor_set_without_its_imports_is_invalid() -> None:
    whole = FileDescriptorSet.FromString(base64.b64decode(compile_proto(ORDER, {"geo/city.proto": CITY})))
    assert load_file(read_descriptor_set(whole.SerializeToString())).name == "schema.proto"
    with pytest.raises(Invalid, match="city"):
        read_descriptor_set(FileDescriptorSet(file=whole.file[-1:]).SerializeToString())


def test_compiler_without_end_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_descriptors, "COMPILE_TIMEOUT_S", 0.0)
    with pytest.raises(Unavailable, match="did not end"):
        compile_proto(CITY, {})


def test_stored_text_is_read_without_the_compiler() -> None:
    text = compile_proto(CITY, {})
    program = (
        "import sys; sys.modules['grpc_tools'] = None; from engine.formats.protobuf.descriptors import load_file; "
        "print(load_file(sys.argv[1]).name)"
    )
    done = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True)
    assert done.stdout == "schema.proto\n"
