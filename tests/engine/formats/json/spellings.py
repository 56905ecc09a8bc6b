"""Spellings of JSON that come back exactly, that are kept as they are, and that can't be read."""

from __future__ import annotations

import json
from typing import Any

from engine.formats.codec import CodecSpec, open_codec, propose_fields
from engine.formats.json.codec import JsonCodec

SCHEMA: dict[str, Any] = {
    "properties": {
        "i": {"type": "integer"},
        "d": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "number"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "n": {"type": "null"},
    }
}


def opened(schema: dict[str, Any] | bool = SCHEMA) -> JsonCodec:
    text = json.dumps(schema)
    proposal = propose_fields("json", text, ())
    codec = open_codec(CodecSpec(name="json", schemas={-1: text}, placements={-1: proposal.placement}), proposal.fields)
    assert isinstance(codec, JsonCodec)
    return codec


EXACT = [
    b"{}",
    b'{"i":9223372036854775807}',
    b'{"i":-9223372036854775808}',
    b'{"d":-0.0}',
    b'{"d":-0}',
    b'{"d":5e-324}',
    b'{"d":1.7976931348623157e308}',
    b'{"d":1e23}',
    b'{"d":123456789012345680000}',
    b'{"d":0.1}',
    b'{"d":NaN}',
    b'{"l":[Infinity,-Infinity]}',
    b'{"s":""}',
    b'{"s":"\\u0000"}',
    b'{"s":"\\u001f\\n\\r\\t\\"\\\\"}',
    b'{"s":"\\ud83d\\ude00"}',
    '{"s":"\U0001f600 \u2028 \ud7ff"}'.encode(),
    b'{"s":"\x7f"}',
    b'{"s":"9999-12-31T23:59:59Z"}',
    b'{"s":"\\/"}',
    b'{"s":null,"i":null,"n":null}',
    b'{"n":null}',
    b'{"o":{},"m":{},"l":[]}',
    b'{"o":null,"l":[null,1],"m":{"b":null,"a":2,"":3}}',
    b'{"m": {"a\\u003cb": 1}}',
    b'{"l":[1,2,3],"i":1}',
    b'{"i":1}\n',
]
KEPT = [
    (b'{"i":9223372036854775808}', "a number passes the range of its column, at i"),
    (b'{"i":5.0}', "a number is not spelled as an integer, at i"),
    (b'{"i":-0}', "a number is spelled as no form does"),
    (b'{"d":1e400}', "a number passes the range of its column, at d"),
    (b'{"d":1.10}', "a number is spelled as no form does"),
    (b'{"d":12e1}', "a number is spelled as no form does"),
    (b'{"d":0.1000000000000000055511151231257827}', "a number is spelled as no form does"),
    (b'{"i":"5"}', "the value is of another type than its column, at i"),
    (b'{"s":5}', "the value is of another type than its column, at s"),
    (b'{"o":[]}', "the value is of another type than its column, at o"),
    (b'{"b":"true"}', "the value is of another type than its column, at b"),
    (b'{"s":"\\ud800"}', "a string has half of a surrogate pair, at s"),
    (b'{"m":{"\\udc00":1}}', "a string has half of a surrogate pair, at m{}"),
    (b'{"s":"\\u0041"}', "a character is escaped as no form does"),
    (b'{"s":"\\u000a"}', "a character is escaped as no form does"),
    (b'{"s":"\\u00e9\xc3\xa9"}', "it spells the same thing in two ways"),
    (b'{"l":[1,1.0]}', "it spells the same thing in two ways"),
    (b'{"i":1,"i":1}', "an object has a member twice"),
    (b'{"m":{"a":1,"a":2}}', "a map has a key twice, or more than 65536 keys, at m"),
    (b'{"z":1}', "a member is none of the schema's"),
    (b'{"o":{"z":[{"q":[]}]}}', "a member is none of the schema's, at o"),
    (b'{"n":0}', "no column holds the member (it is always null), at n"),
    (b"null", "the whole value is null"),
    (b"[1]", "the value is of another type than its column"),
    (b" {}", "white space is where no form has it"),
    (b"{} ", "white space is where no form has it"),
    (b"{ }", "white space is where no form has it"),
    (b'{"i" :1}', "white space is where no form has it"),
    (b'{"i":  1}', "white space is where no form has it"),
    (b'{"i":1, "d":1,"s":""}', "it spells the same thing in two ways"),
    (b"\xef\xbb\xbf{}", "the value begins with a byte order mark"),
    (b'{"l":[' + b"1," * 9 + b'"x"]}', "the value is of another type than its column, at l[]"),
]
NOT_READ = [
    (b"", "the value ends inside"),
    (b"{", "the value ends inside"),
    (b'{"i":', "the value ends inside, at i"),
    (b'{"s":"abc', "the value ends inside, at s"),
    (b'{"s":"\\', "the value ends inside, at s"),
    (b'{"s":"\\u12"}', "the value is not JSON, at s"),
    (b'{"s":"\\x"}', "the value is not JSON, at s"),
    (b'{"s":"\n"}', "the value is not JSON, at s"),
    (b'{"s":"\xff"}', "a string is not UTF-8, at s"),
    (b'{"s":"\xed\xa0\x80"}', "a string is not UTF-8, at s"),
    (b'{"z":"\xff"}', "a string is not UTF-8"),
    (b'{"i":01}', "the value is not JSON"),
    (b'{"d":.5}', "the value is not JSON, at d"),
    (b'{"d":5.}', "the value is not JSON, at d"),
    (b'{"d":1e}', "the value is not JSON, at d"),
    (b'{"d":+1}', "the value is not JSON, at d"),
    (b"{'i':1}", "the value is not JSON"),
    (b'{"i":1,}', "the value is not JSON"),
    (b'{"l":[1,]}', "the value is not JSON, at l[]"),
    (b'{"i":1}{', "something follows the value"),
    (b'{"z":tru}', "the value is not JSON"),
    (b'{"z":' + b"[" * 2000 + b"]" * 2000 + b"}", "the value nests deeper than 1024 levels"),
    (b'{"i":1]', "the value is not JSON"),
    (b'{"i"=1}', "the value is not JSON"),
    (b'{"m":{"\\udc00"1}}', "the value is not JSON, at m"),
    ('{"i":1}'.encode("utf-16"), "the value is not JSON"),
]
