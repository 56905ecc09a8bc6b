"""Secrets of the settings: given as they are, or where they lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from floeberg.settings.section import split_list


def _read_secret(value: object) -> object:
    """A secret as it is, or where it lies: ``{env = "NAME"}``, ``{file = "/run/secrets/name"}`` (the whole path)."""
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"env"}:
        name = str(value["env"])
        if name not in os.environ:
            raise ValueError(f"the environment has no {name}")
        return os.environ[name]
    if set(value) == {"file"}:
        path = Path(str(value["file"])).expanduser()
        if not path.is_absolute():
            raise ValueError("name the secret's file with its whole path")
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the secret's file can't be read: {error}") from error
    raise ValueError('write a secret as a text, as {env = "NAME"} or as {file = "path"}')


def _fits_a_header(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if not text or not all("!" <= character <= "~" for character in text):
        raise ValueError("a token is printable ASCII without spaces, and not empty")
    return token


def _as_list(value: object) -> object:
    return [value] if isinstance(value, Mapping) else split_list(value)


Secret = Annotated[SecretStr, BeforeValidator(_read_secret)]
"""Never printed: its text shows stars."""

Tokens = Annotated[tuple[Annotated[Secret, AfterValidator(_fits_a_header)], ...], NoDecode, BeforeValidator(_as_list)]
"""Each of which opens a door: the old and the new one while clients change over."""
