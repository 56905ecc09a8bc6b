"""The daemon's memory, Spark included, while it tiers one segment after another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cpu import MIB, tree_resident_bytes
from bench.measurement import Measurement
from bench.running.native_stage import NativeStage

_SAMPLE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """Memory of the daemon's process tree, and how many segments it had written by then."""

    resident_bytes: int
    written_files: int


class MemoryWatch:
    """Samples in a thread until ``stop``."""

    def __init__(self, stage: NativeStage) -> None:
        self._stage = stage
        self._ended = threading.Event()
        self._samples: list[MemorySample] = []
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)
        self._thread.start()

    def stop(self) -> tuple[MemorySample, ...]:
        """End sampling. Returns every sample in order."""
        self._ended.set()
        self._thread.join()
        return tuple(self._samples)

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._samples.append(
                MemorySample(
                    resident_bytes=tree_resident_bytes(self._stage.daemon_pid),
                    written_files=self._stage.written_files(),
                )
            )


def measure(samples: Sequence[MemorySample]) -> tuple[Measurement, ...]:
    """The peak, and how the peak of the last quarter of the segments compares with that of the first after the 2nd."""
    written = max(sample.written_files for sample in samples)
    early = [sample.resident_bytes for sample in samples if 2 <= sample.written_files <= max(2, written // 3)]
    late = [sample.resident_bytes for sample in samples if sample.written_files >= 2 * written // 3]
    peak = max(sample.resident_bytes for sample in samples)
    assert written >= 2, "memory is compared from the 2nd segment on"
    found = [
        Measurement(
            key="daemon.memory_peak_mib",
            title=f"Daemon with its Spark, {written} segments: peak memory",
            unit="MiB",
            samples=(peak / MIB,),
            higher_is_better=False,
            goal="≤ 2048",
        )
    ]
    if early:
        found.append(
            Measurement(
                key="daemon.memory_growth",
                title="Daemon memory: peak of the last third of the segments against the 2nd to the first third",
                unit="times",
                samples=(max(late) / max(early),),
                higher_is_better=False,
                goal="flat",
            )
        )
    return tuple(found)
