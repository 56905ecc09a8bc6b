"""Puts the documents that a JSON Schema refers to into its text, so that every reference points into that one text.

Source: JSON Schema draft 2020-12, core, section 9.3 ("bundling"), with pointers in place of embedded identifiers, which
drafts before 2019-09 don't know; names of references as Confluent's JsonSchema resolves them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from engine.errors import Invalid

MAX_DEPTH = 256  # of a schema's text; one that is deeper is taken for an attack

_BUNDLE = "$defs"
# What holds examples of the data, not schemas: a "$ref" in there is a value.
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
# What maps names to schemas: a field may be named as a keyword is.
_NAMED_SCHEMAS = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"}
)


def bundle_references(schema_text: str, references: Mapping[str, str]) -> str:
    """The schema with each of the referenced documents (by the name it is referred to) under ``$defs``.

    A reference to something else, and one to a place that its document does not have, stays as it is.
    Raises Invalid when a text is not JSON or is nested too deeply.
    """
    root = _load(schema_text, "the schema")
    if not isinstance(root, dict) or not references:
        return schema_text
    taken = set(root.get(_BUNDLE) or {}) if isinstance(root.get(_BUNDLE), dict) else set()
    documents = [_Document(root, "", "")]
    for name, text in references.items():
        key = _free_key(name, taken)
        documents.append(_Document(_load(text, f"the reference {name}"), name, f"#/{_BUNDLE}/{key}"))
    bundled = [document.rewritten(documents) for document in documents]
    whole = bundled[0]
    definitions = whole.setdefault(_BUNDLE, {})
    if not isinstance(definitions, dict):
        raise Invalid(f"a JSON schema's {_BUNDLE} is no object")
    for document, content in zip(documents[1:], bundled[1:], strict=True):
        definitions[document.place.rpartition("/")[2]] = content
    return json.dumps(whole, ensure_ascii=False)


def external_references(schema_text: str) -> frozenset[str]:
    """The documents that a schema refers to, as it writes them, without the place inside."""
    root = _load(schema_text, "the schema")
    found = (_split(reference)[0] for reference in _references(root))
    return frozenset(name for name in found if name)


class _Document:
    """A schema's text on its way into the bundle; ``place`` is the pointer to it there, "" for the schema itself."""

    def __init__(self, content: Any, name: str, place: str) -> None:
        self.place = place
        self._content = content
        identity = (content.get("$id") or content.get("id")) if isinstance(content, dict) else None
        self._identity = _split(identity)[0] if isinstance(identity, str) else ""
        self._base = self._identity or name
        self._names = {name, self._identity, _joined(self._base, name)} - {""}
        self._anchors = dict(_anchors(content, "", 0))

    def is_named(self, url: str) -> bool:
        return url in self._names or url.removeprefix("./") in self._names

    def rewritten(self, documents: Iterable[_Document]) -> Any:
        """The content with all its references as pointers into the bundle."""
        content = self._walk(self._content, documents, 0, is_schema=True)
        if self.place and isinstance(content, dict):
            # An embedded identifier would be the base of the pointers beside it.
            content = {key: value for key, value in content.items() if key not in {"$id", "id", "$schema"}}
        return content

    def _walk(self, node: Any, documents: Iterable[_Document], depth: int, *, is_schema: bool) -> Any:
        _check_depth(depth)
        if isinstance(node, list):
            return [self._walk(item, documents, depth + 1, is_schema=True) for item in node]
        if not isinstance(node, dict):
            return node
        made: dict[str, Any] = {}
        for key, value in node.items():
            if is_schema and key in _DATA:
                made[key] = value
            elif is_schema and key == "$ref" and isinstance(value, str):
                made[key] = self._pointer(value, documents)
            else:
                named = is_schema and key in _NAMED_SCHEMAS
                made[key] = self._walk(value, documents, depth + 1, is_schema=not named)
        return made

    def _pointer(self, reference: str, documents: Iterable[_Document]) -> str:
        url, fragment = _split(reference)
        meant = self._meant(url, documents)
        if meant is None:
            return reference
        inside = meant.inside(unquote(fragment))
        return reference if inside is None else (meant.place or "#") + inside

    def _meant(self, url: str, documents: Iterable[_Document]) -> _Document | None:
        if not url or url == self._identity:
            return self
        whole = _joined(self._base, url)
        for name in (url, whole):
            for document in documents:
                if document.is_named(name):
                    return document
        return next((document for document in documents if whole in document.absolute_names(self._base)), None)

    def absolute_names(self, base: str) -> set[str]:
        """The document's names as they read from another's place."""
        return {_joined(base, name) for name in self._names}

    def inside(self, fragment: str) -> str | None:
        """A pointer's part behind the document, "" for the whole; None when there is no such place."""
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        if self._has(fragment):
            return _escaped(fragment)
        # Confluent's validators look for either, wherever it was written.
        for one, other in (("/$defs/", "/definitions/"), ("/definitions/", "/$defs/")):
            if fragment.startswith(one) and self._has(other + fragment.removeprefix(one)):
                return _escaped(other + fragment.removeprefix(one))
        return None

    def _has(self, pointer: str) -> bool:
        node = self._content
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                return False
        return True


def _split(reference: str) -> tuple[str, str]:
    """(document, place inside); what is no URL has no place."""
    try:
        found = urldefrag(reference)
        return found.url, found.fragment
    except ValueError:
        return reference, ""


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def _anchors(node: Any, path: str, depth: int) -> Iterable[tuple[str, str]]:
    """(name, pointer) of each place that has a name: ``$anchor``, or before 2019-09 an ``$id`` that is a fragment."""
    _check_depth(depth)
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _anchors(item, f"{path}/{index}", depth + 1)
    elif isinstance(node, dict):
        for keyword in ("$anchor", "$id", "id"):
            name = node.get(keyword)
            if isinstance(name, str) and (keyword == "$anchor" or name.startswith("#")):
                yield name.removeprefix("#"), _escaped(path)
        for key, value in node.items():
            yield from _anchors(value, f"{path}/{key.replace('~', '~0').replace('/', '~1')}", depth + 1)


def _references(node: Any, depth: int = 0, *, is_schema: bool = True) -> Iterable[str]:
    _check_depth(depth)
    if isinstance(node, list):
        for item in node:
            yield from _references(item, depth + 1)
    elif isinstance(node, dict):
        for key, value in node.items():
            if is_schema and key == "$ref" and isinstance(value, str):
                yield value
            elif not (is_schema and key in _DATA):
                yield from _references(value, depth + 1, is_schema=not (is_schema and key in _NAMED_SCHEMAS))


def _escaped(pointer: str) -> str:
    """As it stands in a URL's fragment; what a reader has to undo is only ``%25``."""
    return pointer.replace("%", "%25")


def _free_key(name: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    key, number = plain, 2
    while key in taken:
        key, number = f"{plain}_{number}", number + 1
    taken.add(key)
    return key


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{what} is not JSON: {error}") from error


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Invalid(f"a JSON schema is nested deeper than {MAX_DEPTH} levels")
