"""How the doors are reached: addresses, tokens, names, certificates."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator
from pydantic_settings import NoDecode

from floeberg.settings.secret import Tokens, TokensInClear
from floeberg.settings.section import Section, TextList


class Listen(Section):
    """An address to listen at: ``host:port``; port 0 takes a free one."""

    host: str
    port: Annotated[int, Field(ge=0, le=65535)]

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise ValueError(f'write it as "host:port", for example "127.0.0.1:7810", not {value!r}')
        return {"host": host.strip("[]"), "port": int(port)}

    @property
    def is_loopback(self) -> bool:
        """Whether nobody on another machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """What a program on this machine calls; a wildcard address is reached over the loopback."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::", "*"} else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class TlsSettings(Section):
    """TLS at a door, 1.2 or newer (security.md). The files are read again when they change."""

    cert_file: Path
    """PEM file of the door's certificate, and of what is between it and the authority."""

    key_file: Path
    """PEM file of its key, without a password."""

    ca_file: Path | None = None
    """PEM file of the authorities that programs of this machine, the broker's plugin among them, know the certificate
    by; without it the system's."""

    name: Annotated[str, Field(min_length=1)] | None = None
    """A name in the certificate by which these programs call the door, where the address in ``listen`` is not in it."""


class DoorSettings(Section):
    """What both doors have. ``token`` is short for ``tokens`` with one."""

    listen: Annotated[Listen, NoDecode]
    """The address to listen at, ``host:port``; port 0 takes a free one."""

    tokens: Tokens = ()
    """Each is a secret that opens the door: several while clients change over."""

    allowed_hosts: TextList = ()
    """Names by which clients may call the door, beside addresses and the names of this machine; ``*.example.com`` for
    all below one, ``*`` for any."""

    tls: TlsSettings | None = None
    """Certificate and key of the door; without them it speaks plain HTTP."""

    @model_validator(mode="before")
    @classmethod
    def _take_the_one_token(cls, values: object) -> object:
        if not isinstance(values, Mapping) or "token" not in values:
            return values
        rest = {name: value for name, value in values.items() if name != "token"}
        if values["token"] is None:
            return rest
        if "tokens" in rest:
            raise ValueError("set token or tokens, not both")
        return {**rest, "tokens": [values["token"]]}

    @property
    def url(self) -> str:
        """What a program on this machine calls."""
        if self.tls is None:
            return self.listen.url
        if self.tls.name is None:
            return self.listen.url.replace("http://", "https://", 1)
        return f"https://{Listen(host=self.tls.name, port=self.listen.port)}"

    @property
    def known_tokens(self) -> tuple[str, ...]:
        """In clear, as they are now."""
        return tuple(TokensInClear(*self.tokens))


class LogDoorSettings(DoorSettings):
    """The door of the broker's plugin; without ``tokens`` one is made and kept in ``data_dir``."""

    listen: Annotated[Listen, NoDecode] = Listen(host="127.0.0.1", port=7810)
    """The address to listen at, ``host:port``; port 0 takes a free one."""


class TableDoorSettings(DoorSettings):
    """The door of SQL engines, with page, status and metrics. Without ``tokens`` everyone who reaches it may read, and
    so it may then listen at the loopback only."""

    listen: Annotated[Listen, NoDecode] = Listen(host="127.0.0.1", port=7811)
    """The address to listen at, ``host:port``; port 0 takes a free one."""
