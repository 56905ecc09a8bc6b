"""Thrift's compact protocol as a tree that can be changed and encoded again: each value knows its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.parquet.thrift import (
    BINARY,
    BYTE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    binary,
    listed,
    struct,
    zigzag,
)

_SIGNED = {I16, I32, I64}


@dataclass(slots=True)
class Node:
    """``value``: an int, a bool (``kind`` TRUE), bytes, a list of nodes of ``item_kind``, or nodes by field id."""

    kind: int
    value: Any
    item_kind: int = 0

    def __getitem__(self, at: int) -> Node:
        node: Node = self.value[at]
        return node

    def __contains__(self, field: int) -> bool:
        return field in self.value

    def get(self, field: int) -> Node | None:
        node: Node | None = self.value.get(field)
        return node

    def add(self, field: int, change: int) -> None:
        """Another number in a field of a struct, which must be there."""
        self[field].value += change

    def swap(self, one: int, other: int) -> None:
        """Exchange two fields of a struct, where it has them."""
        if one in self:
            self.value[one], self.value[other] = self[other], self[one]

    def numbers(self) -> list[int]:
        return [item.value for item in self.value]

    def put_numbers(self, numbers: list[Any]) -> None:
        for item, number in zip(self.value, numbers, strict=True):
            item.value = number


def parse(data: bytes, at: int = 0) -> tuple[Node, int]:
    """The struct that begins at byte ``at``, and where it ends."""
    reader = _Reader(data, at)
    return reader.struct(), reader.at


def encode(node: Node) -> bytes:
    if node.kind == STRUCT:
        return struct((field, _kind(child), encode(child)) for field, child in sorted(node.value.items()))
    if node.kind == LIST:
        items = [bytes([TRUE if item.value else FALSE]) if item.kind == TRUE else encode(item) for item in node.value]
        return listed(node.item_kind, items)
    if node.kind == TRUE:
        return b""
    if node.kind == BYTE:
        return bytes([node.value])
    return binary(node.value) if node.kind == BINARY else zigzag(node.value)


def _kind(node: Node) -> int:
    return FALSE if node.kind == TRUE and not node.value else node.kind


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def struct(self) -> Node:
        fields: dict[int, Node] = {}
        field = 0
        while (head := self.take(1)[0]) != 0:
            field = field + (head >> 4) if head >> 4 else self.signed()
            kind = head & 15
            fields[field] = Node(TRUE, kind == TRUE) if kind in {TRUE, FALSE} else self.value(kind)
        return Node(STRUCT, fields)

    def signed(self) -> int:
        raw = self.varint()
        return raw >> 1 ^ -(raw & 1)

    def value(self, kind: int) -> Node:
        if kind in {TRUE, FALSE}:
            return Node(TRUE, self.take(1)[0] == TRUE)
        if kind == BYTE:
            return Node(BYTE, self.take(1)[0])
        if kind in _SIGNED:
            return Node(kind, self.signed())
        if kind == BINARY:
            return Node(BINARY, self.take(self.varint()))
        if kind == LIST:
            head = self.take(1)[0]
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return Node(LIST, [self.value(head & 15) for _ in range(count)], head & 15)
        assert kind == STRUCT, f"Parquet's metadata has no values of type {kind}"
        return self.struct()
