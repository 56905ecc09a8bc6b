"""Which tables of deleted topics may be dropped, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retention.gone_topics import BrokersWord, SeenHere, StoredTopic, is_there, reasons_to_doubt, reasons_to_keep
from topics.topic_rule import TopicRule

GRACE_MS = 1_000
NOW_MS = 5_000
DROPPING = TopicRule(pattern="*", value_format="string", drops_with_topic=True)
STORED = StoredTopic(topic="orders", topic_id="old", cluster_id="ours", is_retired=False)
WORD = BrokersWord(cluster_id="ours", topic_ids={"orders": None}, has_topics=True)
HERE = SeenHere(is_whole=True, topic_ids=frozenset({"other"}))


def reasons(
    stored: StoredTopic = STORED,
    word: BrokersWord = WORD,
    here: SeenHere = HERE,
    rule: TopicRule | None = DROPPING,
    since_ms: int | None = NOW_MS - GRACE_MS,
) -> list[str]:
    return list(reasons_to_keep(stored, word, here, rule=rule, since_ms=since_ms, now_ms=NOW_MS, grace_ms=GRACE_MS))


def test_topic_that_every_line_holds_of_goes() -> None:
    assert reasons() == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rule": None}, "no [[topics]] names it"),
        ({"rule": replace(DROPPING, drops_with_topic=False)}, 'delete_on_topic_deletion = "keep"'),
        ({"stored": replace(STORED, cluster_id="theirs")}, "it is a topic of the cluster theirs"),
        ({"word": replace(WORD, topic_ids={})}, "does not say whether it has the topic"),
        ({"word": replace(WORD, topic_ids={"orders": "old"})}, "the broker has the topic"),
        ({"word": replace(WORD, has_topics=False)}, "no topic at all"),
        ({"here": replace(HERE, is_whole=False)}, "not all to be read in the last cycle"),
        ({"here": replace(HERE, topic_ids=frozenset({"old"}))}, "lies in the log directories or in the spool"),
        ({"since_ms": None}, "its grace is not over"),
        ({"since_ms": NOW_MS - GRACE_MS + 1}, "its grace is not over"),
        ({"since_ms": NOW_MS + 1}, "its grace is not over"),
        ({"since_ms": -1}, "its grace is not over"),
        ({"word": replace(WORD, topic_ids={"orders": "new"})}, "a new topic of its name has no table yet"),
        ({"stored": replace(STORED, held="its property gc.enabled is false")}, "its property gc.enabled is false"),
    ],
)
def test_each_line_keeps_the_table_by_itself(changed: dict[str, Any], reason: str) -> None:
    found = reasons(**changed)
    assert len([one for one in found if reason in one]) == 1
    # A broker that has the topic has its name, too.
    assert len(found) == 1 or changed["word"].topic_ids == {"orders": "old"}


def test_topic_that_was_created_again_leaves_the_table_under_its_own_name_to_go() -> None:
    retired = replace(STORED, is_retired=True)
    assert reasons(stored=retired, word=replace(WORD, topic_ids={"orders": "new"})) == []


def test_only_the_very_incarnation_is_there() -> None:
    assert is_there(STORED, replace(WORD, topic_ids={"orders": "old"}))
    for ids in ({}, {"orders": None}, {"orders": "new"}):
        assert not is_there(STORED, replace(WORD, topic_ids=ids))


def test_what_the_settings_say_makes_no_doubt() -> None:
    assert list(reasons_to_doubt(STORED, WORD, HERE)) == []
    assert list(reasons_to_doubt(STORED, WORD, SeenHere())) != []
