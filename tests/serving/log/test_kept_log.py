"""The backend of the door's tests behaves as the real one does."""

from __future__ import annotations

import pytest

from serving.log.backend import LogDoorBackend, NoSuchSegment
from tests.serving.log.backend_suite import END, BackendSuite, sample_records
from tests.serving.log.kept_log import KeptLog, segment


def committed_log() -> KeptLog:
    log = KeptLog(sample_records())
    log.committed = END
    return log


class TestKeptLog(BackendSuite):
    @pytest.fixture
    def backend(self) -> LogDoorBackend:
        return committed_log()


def test_segment_below_the_log_start_is_gone() -> None:
    log = committed_log()
    log.log_start = 2000
    with pytest.raises(NoSuchSegment):
        log.records(segment(0, 2000), start=0, max_bytes=1)
