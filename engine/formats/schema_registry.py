"""Schemas from a registry that speaks Confluent's API: the only seam to it.

Source: Confluent Schema Registry API reference, ``GET /schemas/ids/{id}`` and
``GET /subjects/{subject}/versions/{version}``; error codes 404xx mean "not found".
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import tenacity

from engine.clock import Clock
from engine.errors import Invalid, Unavailable
from engine.formats.avro_references import inline_references

ATTEMPTS = 4  # with the waits between them, a registry that restarts in seconds is not noticed
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 2.0
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 16 << 20  # no schema is this large; an answer that is comes from something else
MAX_REFERENCES = 256  # all levels together; a schema of more is taken for a loop
MAX_CACHED = 4096  # schemas kept in memory, least recently used ones leave

_MEDIA_TYPES = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """How a registry is reached: ``url`` with any path prefix; user and password, or a token, or neither."""

    url: str
    user: str | None = None
    password: str | None = None
    token: str | None = None


class _Transient(Exception):
    """Worth another attempt: the connection failed, or the answer was a server's trouble."""


class SchemaRegistry:
    """A schema never changes under its id, so what was read once is not asked for again."""

    def __init__(self, access: RegistryAccess, clock: Clock, transport: httpx.BaseTransport | None = None) -> None:
        self._url = access.url.rstrip("/")
        headers = {"Accept": _MEDIA_TYPES}
        auth = None
        if access.token is not None:
            headers["Authorization"] = f"Bearer {access.token}"
        elif access.user is not None:
            auth = httpx.BasicAuth(access.user, access.password or "")
        self._client = httpx.Client(headers=headers, auth=auth, timeout=TIMEOUT_S, transport=transport)
        self._cache: OrderedDict[int, str] = OrderedDict()
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S),
            retry=tenacity.retry_if_exception_type(_Transient),
            sleep=lambda seconds: clock.sleep(round(seconds * 1000)),
            reraise=True,
        )

    def get(self, schema_id: int) -> str:
        """Raises Invalid for an id the registry does not have, or no Avro schema; Unavailable otherwise."""
        known = self._cache.get(schema_id)
        if known is not None:
            self._cache.move_to_end(schema_id)
            return known
        answer = self._ask(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise Invalid(f"schema {schema_id} is of type {kind}, not AVRO")
        text = self._text_of(answer, f"schema {schema_id}")
        referenced = self._referenced(answer, f"schema {schema_id}")
        if referenced:
            text = inline_references(text, referenced)
        self._cache[schema_id] = text
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return text

    def close(self) -> None:
        self._client.close()

    def _referenced(self, answer: dict[str, Any], what: str) -> list[str]:
        """The texts of all schemas that an answer refers to, at any distance."""
        texts: list[str] = []
        seen: set[tuple[str, int]] = set()
        waiting = list(answer.get("references") or [])
        while waiting:
            reference = waiting.pop()
            try:
                subject, version = str(reference["subject"]), int(reference["version"])
            except (KeyError, TypeError, ValueError) as error:
                raise Invalid(f"{what} has a reference without subject and version: {reference}") from error
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            if len(seen) > MAX_REFERENCES:
                raise Invalid(f"{what} refers to more than {MAX_REFERENCES} other schemas")
            name = f"{what}'s reference {subject} version {version}"
            found = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}", name)
            texts.append(self._text_of(found, name))
            waiting.extend(found.get("references") or [])
        return texts

    def _text_of(self, answer: dict[str, Any], what: str) -> str:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise self._unavailable(f"{what}: the answer has no schema")
        return text

    def _ask(self, path: str, what: str) -> dict[str, Any]:
        try:
            return self._retrying(self._ask_once, path, what)
        except _Transient as error:
            raise self._unavailable(f"{what} can't be had: {error}") from error

    def _ask_once(self, path: str, what: str) -> dict[str, Any]:
        try:
            with self._client.stream("GET", self._url + path) as response:
                body = b""
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise self._unavailable(f"{what}: the answer is larger than any schema")
                return self._judge(response.status_code, body, what)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._unavailable(f"{what} can't be asked for: {error}") from error
        except httpx.HTTPError as error:
            raise _Transient(str(error) or type(error).__name__) from error

    def _judge(self, status: int, body: bytes, what: str) -> dict[str, Any]:
        if status >= 500 or status in (408, 429):
            raise _Transient(f"status {status}")
        if status in (401, 403):
            raise self._unavailable(f"{what}: the registry refuses the credentials (status {status})")
        answer = _object_of(body)
        # Only the registry's own "not found" may count as one: a proxy's page must not make a schema unknown for good.
        if status == 404 and answer is not None and str(answer.get("error_code", "")).startswith("404"):
            raise Invalid(f"{what} is not in the registry: {answer.get('message', 'not found')}", file=self._url)
        if status != 200 or answer is None:
            raise self._unavailable(f"{what}: status {status} with an answer that is no registry's")
        return answer

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(
            problem, file=self._url, next_step="check the registry's URL, its health and the credentials"
        )


def _object_of(body: bytes) -> dict[str, Any] | None:
    """The JSON object that an answer is, None where it is anything else."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
