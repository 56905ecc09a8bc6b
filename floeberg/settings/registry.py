"""Where the schemas of a topic come from, when that is a registry: the table form of ``schemas``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import Field, model_validator

from floeberg.settings.secret import Secret
from floeberg.settings.section import Section, TextList

URL_SCHEMES = ("http://", "https://")


class RegistrySettings(Section):
    """A registry that speaks Confluent's API (schemas.md). ``schemas = "http://registry:8081"`` is short for its URL
    alone. A secret is a text, ``{env = "NAME"}`` or ``{file = "/run/secrets/name"}``."""

    url: Annotated[TextList, Field(min_length=1)]
    """The registry's address, or several of one registry, which are asked in this order."""

    user: str | None = None
    """The user of basic authentication."""

    password: Secret | None = None
    """The user's password (a secret)."""

    token: Secret | None = None
    """A bearer token in place of user and password (a secret)."""

    ca_file: Path | None = None
    """PEM file of the authorities that the registry's certificate may be of; without it the system's."""

    cert_file: Path | None = None
    """PEM file of a certificate to show the registry."""

    key_file: Path | None = None
    """PEM file of that certificate's key, where it is not in ``cert_file``."""

    key_password: Secret | None = None
    """What the key is encrypted with (a secret)."""

    subject_strategy: Literal["topic", "record", "topic_record"] = "topic"
    """How the topic's subjects are named, as the producers' serializers have it."""

    subject: TextList = ()
    """The topic's subjects, where the strategy can't tell them."""

    use_latest: bool = False
    """Whether the table has the columns of its subjects' newest schemas before the first record."""

    metadata: Mapping[str, str] = Field(default_factory=dict)
    """Narrows "newest" to the schemas that carry these properties (a compatibility group)."""

    cache: bool = True
    """Whether schemas that the registry gave are kept under ``data_dir``, for when it is away."""

    @model_validator(mode="before")
    @classmethod
    def _take_credentials_out_of_the_url(cls, values: object) -> object:
        """``https://user:password@host``: kept apart, so that the URL can be shown."""
        if isinstance(values, (str, list, tuple)):
            values = {"url": values}
        if not isinstance(values, Mapping) or not isinstance(values.get("url"), str):
            return values
        urls, found = [], dict[str, Any]()
        for url in str(values["url"]).split(","):
            parts = urlsplit(url.strip())
            if parts.username:
                found["user"] = unquote(parts.username)
                found["password"] = unquote(parts.password or "")
            host = parts.netloc.rpartition("@")[2]
            urls.append(urlunsplit((parts.scheme, host, parts.path, parts.query, "")))
        return {**found, **values, "url": urls}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(url.startswith(URL_SCHEMES) for url in self.url):
            raise ValueError("url begins with http:// or https://")
        if any("@" in urlsplit(url).netloc for url in self.url):
            raise ValueError("in a list of URLs, user and password stand beside url, not in it")
        if self.token is not None and (self.user is not None or self.password is not None):
            raise ValueError("a registry takes token, or user and password, not both")
        if self.password is not None and self.user is None:
            raise ValueError("password needs user")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs cert_file")
        if self.subject_strategy == "record" and self.use_latest and not self.subject:
            raise ValueError("subject_strategy = \"record\" can't tell a topic's subjects: name them with subject")
        return self
