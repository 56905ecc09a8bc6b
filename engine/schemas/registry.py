"""Schemas from a registry that speaks Confluent's API (docs/schemas.md). Blocks; ``SchemaDesk`` asks it for the loop.

Source: ``GET /schemas/ids/{id}``, ``/subjects/{subject}/versions/{version}`` and ``/subjects`` of the API reference;
how references are followed, and what is newest with metadata: ``AbstractSchemaProvider.resolveReferences`` and
``AbstractSchemaRegistry.getLatestWithMetadata`` of Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import structlog

from engine.errors import Invalid, Unavailable
from engine.schemas.cache import SchemaCache
from engine.schemas.http import Absent, RegistryHttp, RegistryQuestion
from engine.schemas.source import FoundSchema
from engine.schemas.text import WrittenSchema, codec_text

MAX_REFERENCES = 256  # all levels together; a schema of more is taken for a loop
MAX_VERSIONS_ASKED = 100  # of a subject, newest first, for one that carries the metadata

_log = structlog.get_logger(__name__)


class SchemaRegistry:
    """One registry. ``cache`` keeps what it gave, for when it does not answer."""

    def __init__(self, http: RegistryHttp, cache: SchemaCache | None = None) -> None:
        self._http = http
        self._cache = cache

    def get(self, schema_id: int, schema_format: str) -> str:
        """The schema of an id, as its codec reads it. Raises Invalid for an id the registry does not have, or one of
        another type; Unavailable otherwise."""
        what = f"schema {schema_id}"
        with self._http.question() as question:
            answer = _object(question.ask(f"/schemas/ids/{schema_id}", what), what)
            schema = _written(question, answer, what)
        self._keep(schema_id, schema)
        return codec_text(schema, schema_format, what)

    def remembered(self, schema_id: int, schema_format: str) -> str | None:
        """The schema as the registry gave it once, without asking; None where it is not known. Raises Invalid."""
        schema = None if self._cache is None else self._cache.get(schema_id)
        return None if schema is None else codec_text(schema, schema_format, f"schema {schema_id}")

    def newest(self, subject: str, metadata: Mapping[str, str], schema_format: str) -> FoundSchema | None:
        """The newest schema of a subject, with ``metadata`` the newest that carries these properties; None where the
        registry has no such subject or schema. Raises Invalid for one of another type, Unavailable."""
        what = f"the newest schema of {subject}"
        with self._http.question() as question:
            answer = _newest(question, subject, metadata, what)
            if answer is None:
                return None
            schema = _written(question, answer, what)
        schema_id, version = answer.get("id"), answer.get("version")
        if not isinstance(schema_id, int) or not isinstance(version, int):
            raise Unavailable(f"{what}: the answer has no id and version")
        self._keep(schema_id, schema)
        return FoundSchema(
            subject=subject, version=version, schema_id=schema_id, text=codec_text(schema, schema_format, what)
        )

    def subjects(self, prefix: str) -> tuple[str, ...]:
        """The subjects there are; only those with ``prefix`` matter, though a registry may answer with all."""
        with self._http.question() as question:
            answer = question.ask("/subjects", "the list of subjects", {"subjectPrefix": prefix})
        return tuple(str(subject) for subject in _list(answer, "the list of subjects"))

    def _keep(self, schema_id: int, schema: WrittenSchema) -> None:
        if self._cache is None:
            return
        before = self._cache.get(schema_id)
        if before is not None and before != schema:
            _log.warning(
                "schema_changed_under_its_id",
                schema_id=schema_id,
                registry=self._http.access.identity,
                next_step="was the registry set up again? Tables keep the schemas they were written with",
            )
        if before != schema:
            self._cache.put(schema_id, schema)


def _newest(
    question: RegistryQuestion, subject: str, metadata: Mapping[str, str], what: str
) -> Mapping[str, Any] | None:
    path = f"/subjects/{quote(subject, safe='')}/versions"
    try:
        if not metadata:
            return _object(question.ask(f"{path}/latest", what), what)
        versions = _list(question.ask(path, f"the versions of {subject}"), f"the versions of {subject}")
    except Absent:
        return None
    # By version, not by /subjects/{subject}/metadata: only Confluent's own registry has that.
    for version in sorted((one for one in versions if isinstance(one, int)), reverse=True)[:MAX_VERSIONS_ASKED]:
        answer = _object(question.ask(f"{path}/{version}", f"{subject} version {version}"), what)
        carried = answer.get("metadata")
        properties = carried.get("properties") if isinstance(carried, dict) else None
        if isinstance(properties, dict) and metadata.items() <= properties.items():
            return answer
    return None


def _written(question: RegistryQuestion, answer: Mapping[str, Any], what: str) -> WrittenSchema:
    references: dict[str, str] = {}
    _follow(question, answer, what, references, set())
    return WrittenSchema(
        schema_type=str(answer.get("schemaType", "AVRO")), text=_text(answer, what), references=references
    )


def _follow(
    question: RegistryQuestion, answer: Mapping[str, Any], what: str, texts: dict[str, str], seen: set[str]
) -> None:
    """Put the texts of all that an answer refers to under their names, what each needs before it; a name that comes
    twice is what it is first."""
    for reference in _list(answer.get("references") or [], f"the references of {what}"):
        try:
            name, subject, version = str(reference["name"]), str(reference["subject"]), int(reference["version"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"{what} has a reference without name, subject and version: {reference}") from error
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > MAX_REFERENCES:
            raise Invalid(f"{what} refers to more than {MAX_REFERENCES} other schemas")
        told = f"{what}'s reference {subject} version {version}"
        # A version that was deleted since is still what the schema was written with.
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        found = _object(question.ask(path, told, {"deleted": "true"}), told)
        _follow(question, found, what, texts, seen)
        texts[name] = _text(found, told)


def _text(answer: Mapping[str, Any], what: str) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise Unavailable(f"{what}: the answer has no schema")
    return text


def _list(answer: Any, what: str) -> list[Any]:
    if not isinstance(answer, list):
        raise Unavailable(f"{what}: the answer is no registry's", next_step="check the registry's URL")
    return answer


def _object(answer: Any, what: str) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise Unavailable(f"{what}: the answer is no registry's", next_step="check the registry's URL")
    return answer
