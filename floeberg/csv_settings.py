"""How a topic's CSV lines, or its CSV keys, are written: the tables ``csv`` and ``key_csv`` of a topic."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from engine.errors import Invalid
from floeberg.settings_section import Section, TextList

Letter = Annotated[str, StringConstraints(strip_whitespace=False)]
"""A tab or a space is what is meant."""


class CsvSettings(Section):
    """``columns``: each as ``name:type``, in the line's order. docs/row_format.md says what the types are."""

    columns: Annotated[TextList, Field(min_length=1)]
    delimiter: Letter = ","
    quote: Literal["minimal", "strings", "all", "none"] = "minimal"
    line_end: Literal["none", "lf", "crlf"] = "none"
    time_separator: Letter = "T"

    @model_validator(mode="after")
    def _check_dialect(self) -> Self:
        # Arrow is not loaded for topics without CSV.
        from engine.formats.csv.dialect import CsvDialect

        try:
            CsvDialect.of(self.options)
        except Invalid as error:
            raise ValueError(error.problem) from error
        return self

    @property
    def options(self) -> dict[str, str]:
        """As the codec takes them."""
        return {
            "columns": json.dumps(self.columns),
            "delimiter": self.delimiter,
            "quote": self.quote,
            "line_end": self.line_end,
            "time_separator": self.time_separator,
        }
