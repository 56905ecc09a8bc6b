"""Finds the form that gives a record's text back: by its traits, and by the order and presence of its members.

A form is a row of words: the traits it has; for each object how many of its members are written even when null; for
each member its rank within its object, times two, with that in the last bit.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from engine.formats.json.operations import (
    M_OBJECT,
    MEMBER_WIDTH,
    R_FORM,
    R_FORMS,
    R_MEMBERS,
    R_NO,
    R_OBJECTS,
    R_TRACE,
    R_YES,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_i32, set_word, word


@inner
def clear_ranks(ranks, object_count):
    for index in range(object_count):
        set_word(ranks, 2 * index, np.int64(-1))
        set_word(ranks, 2 * index + 1, np.int64(0))


@inner
def fits(tables, form):
    """Whether the record just read is what the form at an address makes of its columns."""
    report = tables.report
    if word(form, 0) & word(report, R_NO) or word(report, R_YES) & ~word(form, 0):
        return False
    objects = form + 8
    members = objects + 8 * word(tables.report, R_OBJECTS)
    facts, trace, ranks = tables.members, tables.trace, tables.ranks
    for index in range(word(report, R_TRACE)):
        event = np.int64(load_i32(trace + 4 * index))
        if event < 0:
            place = -event - 1
            good = word(ranks, 2 * place + 1) == word(objects, place)
            set_word(ranks, 2 * place, np.int64(-1))
            set_word(ranks, 2 * place + 1, np.int64(0))
        else:
            member = event >> 1
            place = word(facts, MEMBER_WIDTH * member + M_OBJECT)
            rule = word(members, member)
            good = rule >> 1 > word(ranks, 2 * place) and (event & 1 == 0 or rule & 1 == 1)
            set_word(ranks, 2 * place, rule >> 1)
            set_word(ranks, 2 * place + 1, word(ranks, 2 * place + 1) + (rule & 1))
        if not good:
            clear_ranks(ranks, word(tables.report, R_OBJECTS))
            return False
    return True


@inner
def find_form(tables):
    """The number of a form that fits, the last one's first, then the newest; -1 for none."""
    report = tables.report
    width = 8 * (1 + word(tables.report, R_OBJECTS) + word(tables.report, R_MEMBERS))
    likely = word(report, R_FORM)
    if fits(tables, tables.forms + width * likely):
        return likely
    form = word(tables.report, R_FORMS) - 1
    while form >= 0:
        if form != likely and fits(tables, tables.forms + width * form):
            set_word(report, R_FORM, form)
            return form
        form -= 1
    return np.int64(-1)
