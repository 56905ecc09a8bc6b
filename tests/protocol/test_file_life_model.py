"""Every interleaving of who changes a table's files with expiry and a sweep keeps the promises, and each rule is needed
for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.protocol.exploration import explore
from tests.protocol.file_life_model import FileLifeModel, LifeRules


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """States refer to nothing that refers to them: looking for cycles among them takes a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "model",
    [
        FileLifeModel("append"),
        FileLifeModel("append", "merge", most_files=3),
        FileLifeModel("append", "erase", most_files=3),
        FileLifeModel("merge", "erase", most_files=3),
        FileLifeModel("leave", "erase", most_files=2),
        FileLifeModel("leave", "merge", start_files=2, most_files=3),
    ],
    ids=["append", "append_merge", "append_erase", "merge_erase", "leave_erase", "leave_merge"],
)
def test_no_file_goes_that_is_needed_and_no_erased_record_comes_back(model: FileLifeModel) -> None:
    found = explore(model, model.start)
    assert found.broken is None, "\n".join([*found.trace, found.broken or ""])
    print(f"{len(found.states)} states, {len(found.steps_to)} steps")
    assert any(len(state.store) < state.written for state in found.states), "nothing was swept"


@pytest.mark.parametrize(
    ("rule", "actors", "broken"),
    [
        ("fence_is_asked", ("append",), "is gone, and the table names it"),
        ("fence_is_put", ("append",), "is gone, and the table names it"),
        ("looks_again", ("append",), "is gone, and the table names it"),
        ("asks_history", ("merge",), "is gone, and the table names it"),
        ("asks_branch", ("leave",), "is gone, and the table names it"),
        ("branch_keeps_what_leaves", ("leave",), "are lost"),
        ("replaces_what_is_listed", ("merge", "erase"), "an erased record is back"),
        ("erases_in_the_branch", ("leave", "erase"), "an erased record is back"),
        ("erasure_cuts_history", ("erase",), "an erased record is back"),
    ],
)
def test_without_a_rule_a_promise_is_broken(rule: str, actors: tuple[str, ...], broken: str) -> None:
    model = FileLifeModel(*actors, rules=LifeRules(**{rule: False}), most_files=3)
    found = explore(model, model.start)
    assert found.broken is not None
    assert broken in found.broken, found.trace
    print("\n".join([*found.trace, found.broken]))
