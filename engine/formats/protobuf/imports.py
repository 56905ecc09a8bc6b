"""What schemas import: by name, and the files that need not be handed in since Confluent's serializers know them.

Source: ``confluent/meta.proto`` and ``confluent/type/decimal.proto`` of Confluent's schema registry. The numbers of
their fields are what counts; Google's files come with protoc and with googleapis-common-protos.
"""

from __future__ import annotations

import re

# Found in a comment too: a file too many costs nothing.
_IMPORT = re.compile(r"""\bimport\s+(?:public\s+|weak\s+)?["']([^"']+)["']""")

_META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""

_DECIMAL = """
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""

_DECIMAL_BY_ITS_OTHER_NAME = """
syntax = "proto3";
import public "confluent/type/decimal.proto";
"""

BUILT_IN_IMPORTS = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/types/decimal.proto": _DECIMAL_BY_ITS_OTHER_NAME,
}
"""Name as it is imported -> text."""


def imported_names(text: str) -> list[str]:
    """The files that a ``.proto`` text imports, as it writes them."""
    return _IMPORT.findall(text)
