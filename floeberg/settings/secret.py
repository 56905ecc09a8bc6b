"""Secrets of the settings: given as they are, or where they lie."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from floeberg.settings.section import split_list
from floeberg.settings.token_file import TokenFile, check_token, read_secret_file


def _read_secret(value: object) -> object:
    """A secret as it is, or where it lies: ``{env = "NAME"}``, ``{file = "/run/secrets/name"}`` (the whole path)."""
    file = _file_of(value)
    if file is not None:
        return read_secret_file(file)
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"env"}:
        name = str(value["env"])
        if name not in os.environ:
            raise ValueError(f"the environment has no {name}")
        return os.environ[name]
    raise ValueError('write a secret as a text, as {env = "NAME"} or as {file = "path"}')


def _read_token(value: object) -> object:
    """As ``_read_secret``; one in a file goes on to be what the file has."""
    file = _file_of(value)
    return _read_secret(value) if file is None else TokenFile(file)


def _file_of(value: object) -> Path | None:
    if not isinstance(value, Mapping) or set(value) != {"file"}:
        return None
    path = Path(str(value["file"])).expanduser()
    if not path.is_absolute():
        raise ValueError("name the secret's file with its whole path")
    return path


def _fits_a_header(token: SecretStr) -> SecretStr:
    check_token(token.get_secret_value())
    return token


def _as_list(value: object) -> object:
    return [value] if isinstance(value, Mapping) else split_list(value)


Secret = Annotated[SecretStr, BeforeValidator(_read_secret)]
"""Never printed: its text shows stars."""

_Token = Annotated[SecretStr, BeforeValidator(_read_token), AfterValidator(_fits_a_header)]

Tokens = Annotated[tuple[_Token, ...], NoDecode, BeforeValidator(_as_list)]
"""Each of which opens a door: the old and the new one while clients change over."""


class TokensInClear(Collection[str]):
    """The texts of tokens, as they are whenever it is looked at."""

    def __init__(self, *tokens: SecretStr) -> None:
        self._tokens = tokens

    def __iter__(self) -> Iterator[str]:
        return (token.get_secret_value() for token in self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, text: object) -> bool:
        return text in tuple(self)
