"""The forms found in a topic's records so far: a small set, each made from the records themselves.

A form is never changed once rows have it. A record that none fits adds what it shows to the evidence of an earlier one
that it agrees with, which makes a new form for both; where it agrees with none, it begins an evidence of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.formats.json.form import STANDARD, Form, words_of
from engine.formats.json.member_order import ordered
from engine.formats.json.program import JsonProgram

MAX_FORMS = 64
"""Distinct forms of one schema in one file; the records beyond keep their bytes."""

MAX_FAILURES = 256
"""Records without a form that are looked at; more of them are not worth the time."""


@dataclass(slots=True, kw_only=True)
class _Evidence:
    """What the records of one writer show: traits had and not had; by object which member came before which; by
    (object, member) whether it was written as null (True) or left out (False)."""

    yes: int = 0
    no: int = 0
    before: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    null_is_written: dict[tuple[int, int], bool] = field(default_factory=dict)

    def with_added(self, other: _Evidence) -> _Evidence | None:
        """Both together; None where they contradict each other."""
        yes, no = self.yes | other.yes, self.no | other.no
        if yes & no:
            return None
        null_is_written = dict(self.null_is_written)
        for member, written in other.null_is_written.items():
            if null_is_written.setdefault(member, written) != written:
                return None
        before = {number: set(pairs) for number, pairs in self.before.items()}
        for number, pairs in other.before.items():
            before.setdefault(number, set()).update(pairs)
        return _Evidence(yes=yes, no=no, before=before, null_is_written=null_is_written)


class FormBook:
    """``words`` is the kernel's table, one row a form; the standard form is the first."""

    def __init__(self, program: JsonProgram) -> None:
        self._program = program
        self.forms: list[Form] = [STANDARD]
        self._evidence: list[_Evidence] = []
        first = words_of(STANDARD, program)
        self.words = np.zeros((MAX_FORMS, len(first)), np.int64)
        self.words[0] = first
        self._failures = 0

    @property
    def may_learn(self) -> bool:
        return len(self.forms) < MAX_FORMS and self._failures < MAX_FAILURES

    def learn(self, trace: NDArray[np.int32], yes: int, no: int) -> bool:
        """A form for a record that none fits; False where there can't be one."""
        shown = self._shown(trace.tolist(), yes, no)
        if shown is not None and self.may_learn:
            for index in range(len(self._evidence) - 1, -1, -1):
                joined = self._evidence[index].with_added(shown)
                form = None if joined is None else self._form(joined)
                if joined is not None and form is not None:
                    del self._evidence[index]
                    return self._add(joined, form)
            form = self._form(shown)
            if form is not None:
                return self._add(shown, form)
        self._failures += 1
        return False

    def _add(self, evidence: _Evidence, form: Form) -> bool:
        self._evidence.append(evidence)
        if form in self.forms:
            return False
        self.words[len(self.forms)] = words_of(form, self._program)
        self.forms.append(form)
        return True

    def _shown(self, trace: Sequence[int], yes: int, no: int) -> _Evidence | None:
        """A record's evidence; None where the record contradicts itself."""
        evidence = _Evidence(yes=yes, no=no)
        seen: list[list[int]] = [[] for _ in self._program.objects]
        object_of = np.empty(self._program.member_count, np.int64)
        for number, place in enumerate(self._program.objects):
            object_of[place.first : place.first + len(place.members)] = number
        owner = object_of.tolist()
        for event in trace:
            if event >= 0:
                seen[owner[event >> 1]].append(event)
            else:
                number = -event - 1
                if not self._note_object(evidence, number, seen[number]):
                    return None
                seen[number] = []
        return evidence

    def _note_object(self, evidence: _Evidence, number: int, events: Sequence[int]) -> bool:
        place = self._program.objects[number]
        present = [(event >> 1) - place.first for event in events]
        evidence.before.setdefault(number, set()).update(pairwise(present))
        shown = {(number, index): False for index in set(range(len(place.members))) - set(present)}
        shown.update({(number, (event >> 1) - place.first): True for event in events if event & 1})
        return all(evidence.null_is_written.setdefault(member, written) == written for member, written in shown.items())

    def _form(self, evidence: _Evidence) -> Form | None:
        """The form that all of the evidence has; None where the orders contradict each other."""
        orders, written = {}, {}
        # Who writes one null writes all of them, unless a member was seen to be left out.
        default = any(evidence.null_is_written.values()) and all(evidence.null_is_written.values())
        for number, place in enumerate(self._program.objects):
            count = len(place.members)
            order = ordered(count, evidence.before.get(number, ()))
            if order is None:
                return None
            if order != tuple(range(count)):
                orders[number] = order
            nulls = (index for index in range(count) if evidence.null_is_written.get((number, index), default))
            written[number] = frozenset(nulls)
        return Form(traits=evidence.yes, orders=orders, written=written)
