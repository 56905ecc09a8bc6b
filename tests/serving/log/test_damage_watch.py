"""Damage that readers meet is named once, with its coordinates, for as long as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.errors import Corrupt, Unavailable
from engine.offset_range import OffsetRange
from serving.log import damage_watch
from serving.log.backend import NoSuchSegment, RemoteSegment
from serving.log.damage_watch import DamageWatch
from tests.serving.log.backend_suite import END, BackendSuite, sample_records
from tests.serving.log.kept_log import TOPIC_ID, KeptLog, segment
from tests.serving.log.stage import STATE, Stage, empty_stage

WHOLE = segment(0, END)


def watching(stage: Stage) -> DamageWatch:
    return DamageWatch(stage.log, topic_of=stage.log.topic_of, forget=stage.reader.forget)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stage]:
    with empty_stage(tmp_path) as stage:
        stage.store_all()
        yield stage


class TestDamageWatch(BackendSuite):
    @pytest.fixture(scope="class")
    def backend(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DamageWatch]:
        with empty_stage(tmp_path_factory.mktemp("damage-watch")) as stage:
            stage.store_all()
            yield watching(stage)


def flipped(path: Path) -> Callable[[], None]:
    """A bit of a file flipped; what puts it back as it was, in a new file as a restored one is."""
    content = path.read_bytes()
    at = len(content) // 3
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    return lambda: replaced(path, content)


def lost(path: Path) -> Callable[[], None]:
    content = path.read_bytes()
    path.unlink()
    return lambda: replaced(path, content)


def replaced(path: Path, content: bytes) -> None:
    copy = path.with_suffix(".copy")
    copy.write_bytes(content)
    copy.rename(path)


def read(watch: DamageWatch, of: RemoteSegment = WHOLE) -> int:
    return sum(map(len, watch.records(of, start=of.range.start, max_bytes=1 << 30)))


@pytest.mark.parametrize(("harm", "was_read_before"), [(flipped, False), (flipped, True), (lost, False)])
def test_damaged_file_is_named_once_however_often_it_is_read_and_not_once_it_is_back(
    stored: Stage, harm: Callable[[Path], Callable[[], None]], was_read_before: bool
) -> None:
    watch, file = watching(stored), stored.data_files()[-1]
    if was_read_before:
        watch.offset_grid(WHOLE)  # opens every file, decodes none
    mend = harm(file)
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(Corrupt):
                read(watch)
        (told,) = watch.found().newest
        watch.look_again()
        assert watch.found().newest == (told,)
        mend()
        watch.look_again()
    assert watch.found().count == 0
    assert [line["event"] for line in logs] == ["damage_found", "damage_over"]
    for part in ("topic orders", "partition 0", file.name, "Next: "):
        assert part in told
    assert read(watch) > 0


def test_damage_is_over_when_the_table_names_the_file_no_more_and_when_its_offsets_are_gone(stored: Stage) -> None:
    watch, file = watching(stored), stored.data_files()[0]
    flipped(file)
    with pytest.raises(Corrupt):
        watch.verified(segment(0, 1000))
    with pytest.raises(Corrupt):
        read(watch, segment(0, 1000))
    assert watch.found().count == 1
    stored.writer.move_horizons(stored.table(), log_starts={0: 1000})
    stored.tiering.log_starts[TOPIC_ID, 0] = 1000
    watch.look_again()
    assert watch.found().count == 1, "verifying its last offset still meets the file"
    with pytest.raises(NoSuchSegment):
        read(watch, segment(0, 1000))


def test_damaged_auxiliary_state_is_named_with_its_file_and_range(stored: Stage) -> None:
    watch = watching(stored)
    watch.keep_auxiliary_state(segment(0, 1000), STATE)
    (path,) = stored.folder.rglob("*.aux")
    mend = flipped(path)
    with pytest.raises(Corrupt):
        watch.auxiliary_state(segment(0, 1000))
    (told,) = watch.found().newest
    for part in ("topic orders", "partition 0", "offset 0", path.name, "put the file back"):
        assert part in told
    mend()
    watch.look_again()
    assert watch.found().count == 0


class _Damaged(KeptLog):
    """Every segment of its own damage, until ``mended``."""

    mended: Callable[[RemoteSegment], bool] = staticmethod(lambda _: False)
    away = False

    def verified(self, of: RemoteSegment) -> None:  # type: ignore[override]
        if self.away:
            raise Unavailable("the warehouse does not answer")
        if not self.mended(of):
            raise Corrupt("a hole", offset=of.range.start)


def test_damages_are_bounded_and_counted_and_each_is_looked_at_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage_watch, "MOST_DAMAGES", 50)
    log = _Damaged(sample_records())
    watch = DamageWatch(log, topic_of=lambda _: None, forget=lambda _: None)
    for at in range(60):
        with pytest.raises(Corrupt):
            watch.verified(segment(at, at + 1))
    found = watch.found()
    assert (found.count, len(found.newest)) == (50, damage_watch.SHOWN_DAMAGES)
    assert "offset 59" in found.newest[0]
    assert f"topic {TOPIC_ID}" in found.newest[0]
    log.away = True
    watch.look_again()
    assert watch.found().count == 50, "what can't be read now is not whole"
    log.away, log.mended = False, lambda of: of.range != OffsetRange(start=30, end=31)
    for _ in range(50 // damage_watch.LOOKS_AT_ONCE + 2):
        watch.look_again()
    assert [("offset 30" in one) for one in watch.found().newest] == [True]
    for at in range(60, 110):
        log.mended = lambda _: False
        with pytest.raises(Corrupt):
            watch.verified(segment(at, at + 1))
    assert "offset 30" not in " ".join(watch.found().newest), "the oldest goes first"
