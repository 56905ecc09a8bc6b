"""Settings that a topic's table was not made for are told in the first cycle, in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.table.columns import TableLayout
from floeberg.tables.topic_tables import TopicTables
from tests.tiering.tiering_world import TieringWorld, report_of
from topics.topic_rule import TopicRule

MADE = TopicRule(pattern="*", value_format="string")
RULES = [
    (TopicRule(pattern="*", value_format="json"), 'the settings say value = "json", ', 'was made for value = "string"'),
    (
        TopicRule(pattern="*", value_format="string", layout=TableLayout(prefix="k_", key="raw")),
        'the settings say key = "raw" and column_prefix = "k_", ',
        'was made for key = "string" and column_prefix = "kafka_"',
    ),
    (
        TopicRule(pattern="*", value_format="string", codec_options={"unwrap": "debezium"}),
        'the settings say unwrap = "debezium", ',
        "was made for no unwrap",
    ),
]


@pytest.mark.parametrize(("changed", "says", "made"), RULES)
def test_conflict_is_told_in_the_first_cycle_though_nothing_is_to_be_tiered(
    tmp_path: Path, changed: TopicRule, says: str, made: str
) -> None:
    world = TieringWorld(tmp_path)
    (partition,) = world.broker.create_topic("orders")
    world.broker.append_segment(partition, [b"a", b"b"])
    assert world.loop(rules=(MADE,)).cycle().commits == 1
    loop = world.loop(rules=(changed,))
    for _ in range(2):
        problem = report_of(loop.cycle(), partition).problem
        assert isinstance(problem, Invalid)
        for words in (says, made):
            assert words in problem.problem
        assert problem.next_step is not None
        assert "restart the daemon" in problem.next_step
    tables = TopicTables(world.catalog, "kafka")
    (table,) = tables.all()
    rule = tables.rule_for(table, (changed, MADE))
    assert rule is changed
    with pytest.raises(Invalid, match=re.escape(problem.problem)):
        rule.check_table(table)
    assert report_of(world.loop(rules=(MADE,)).cycle(), partition).problem is None
