"""What the settings are made of: sections that refuse unknown names, lists as the environment writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_settings import NoDecode


def split_list(value: object) -> object:
    """``a,b`` (as Kafka writes ``log.dirs``) or a JSON list, where the environment gives a text."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


TextList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_list)]
PathList = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(split_list)]


class Section(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
