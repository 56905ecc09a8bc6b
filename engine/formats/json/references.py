"""Puts the documents that a JSON Schema refers to into its text, so that every reference points into that one text.

Source: JSON Schema draft 2020-12, core, section 9.3 ("bundling"), with pointers in place of embedded identifiers, which
drafts before 2019-09 don't know; names of references as Confluent's JsonSchema resolves them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
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
    if not isinstance(root.setdefault(_BUNDLE, {}), dict):
        raise Invalid(f"a JSON schema's {_BUNDLE} is no object")
    taken = set(root[_BUNDLE])
    documents = [_Document(root, "", "")]
    for name, text in references.items():
        documents.append(_Document(_load(text, f"the reference {name}"), name, _free_key(name, taken)))
    whole, *others = (document.rewritten(documents) for document in documents)
    whole[_BUNDLE] |= {document.key: content for document, content in zip(documents[1:], others, strict=True)}
    return json.dumps(whole, ensure_ascii=False)


def external_references(schema_text: str) -> frozenset[str]:
    """The documents that a schema refers to, as it writes them, without the place inside."""
    found = {""}

    def note(reference: str) -> str:
        found.add(_split(reference)[0])
        return reference

    _walk(_load(schema_text, "the schema"), note, 0)
    return frozenset(found - {""})


class _Document:
    """A schema's text on its way into the bundle, where it stands under ``key``; "" for the schema itself."""

    def __init__(self, content: Any, name: str, key: str) -> None:
        self.key = key
        self._content = content
        identity = (content.get("$id") or content.get("id")) if isinstance(content, dict) else None
        self._identity = _split(identity)[0] if isinstance(identity, str) else ""
        self._base = self._identity or name
        self._names = {name, self._identity, _joined(self._base, name)} - {""}
        self._anchors = dict(_anchors(content, "", 0))

    def rewritten(self, documents: Sequence[_Document]) -> Any:
        """The content with all its references as pointers into the bundle."""
        content = _walk(self._content, partial(self._pointer, documents), 0)
        if self.key and isinstance(content, dict):
            # An embedded identifier would be the base of the pointers beside it.
            content = {key: value for key, value in content.items() if key not in {"$id", "id", "$schema"}}
        return content

    def _pointer(self, documents: Sequence[_Document], reference: str) -> str:
        url, fragment = _split(reference)
        meant = self._meant(url, documents)
        inside = None if meant is None else meant._inside(unquote(fragment))
        if meant is None or inside is None:
            return reference
        # What a reader of a URL's fragment has to undo is only "%25".
        return (f"#/{_BUNDLE}/{meant.key}" if meant.key else "#") + inside.replace("%", "%25")

    def _meant(self, url: str, documents: Sequence[_Document]) -> _Document | None:
        if not url or url == self._identity:
            return self
        whole = _joined(self._base, url)
        for name in (url, whole):
            for document in documents:
                if document._names & {name, name.removeprefix("./")}:
                    return document
        for document in documents:
            if whole in {_joined(self._base, name) for name in document._names}:
                return document
        return None

    def _inside(self, fragment: str) -> str | None:
        """The pointer, from the document's root, to what the fragment names; None when there is no such place."""
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment)
        # Confluent's validators look for either, wherever it was written.
        for one, other in (("", ""), ("/$defs/", "/definitions/"), ("/definitions/", "/$defs/")):
            if fragment.startswith(one) and self._has(other + fragment.removeprefix(one)):
                return other + fragment.removeprefix(one)
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


def _walk(node: Any, pointer: Callable[[str], str], depth: int, *, is_schema: bool = True) -> Any:
    """A copy of a schema with ``pointer`` of each of its references in the reference's place."""
    _check_depth(depth)
    if isinstance(node, list):
        return [_walk(item, pointer, depth + 1) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if is_schema and key in _DATA:
            made[key] = value
        elif is_schema and key == "$ref" and isinstance(value, str):
            made[key] = pointer(value)
        else:
            made[key] = _walk(value, pointer, depth + 1, is_schema=not (is_schema and key in _NAMED_SCHEMAS))
    return made


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
                yield name.removeprefix("#"), path
        for key, value in node.items():
            yield from _anchors(value, f"{path}/{key.replace('~', '~0').replace('/', '~1')}", depth + 1)


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
