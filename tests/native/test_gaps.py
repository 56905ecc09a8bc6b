"""Consumers get over gaps in history: whole segments without a record, and what compaction took."""

from __future__ import annotations

import re

import pytest

from tests.native.clients import CLIENTS, ISOLATIONS, java_console
from tests.native.gapped_topics import GappedTopic
from tests.native.stage import NativeStage
from tests.native.transactional_topic import Kept

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("native")]
_PRINTED = re.compile(r"\tOffset:(\d+)\t.*\t(.*)$")


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_gets_every_committed_record_once_over_all_gaps(
    stage: NativeStage, gapped: GappedTopic, client: str, isolation: str
) -> None:
    found = CLIENTS[client](stage.broker.bootstrap, gapped.name, 0, gapped.end, lambda _: None, False, isolation)
    assert [(offset, sent.value) for offset, sent in found] == gapped.kept


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_kafkas_own_console_consumer_gets_every_committed_record_once_over_all_gaps(
    stage: NativeStage, gapped: GappedTopic, isolation: str
) -> None:
    lines = java_console(stage.broker.bootstrap, gapped.name, len(gapped.kept), subscribe=True, isolation=isolation)
    assert [_printed(line) for line in lines] == [
        (offset, b"null" if value is None else value) for offset, value in gapped.kept
    ]


def _printed(line: str) -> Kept:
    found = _PRINTED.search(line)
    assert found is not None, line
    return int(found[1]), found[2].encode()
