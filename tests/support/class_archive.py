"""A broker's classes as the JVM keeps them once they are loaded and verified (JEP 350): half of a broker's start."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from floeberg.processes.local_broker import LocalBroker

ARCHIVE = Path(__file__).parents[2] / "build" / "kafka.jsa"


def archive_options() -> tuple[str, ...]:
    """Options of any JVM. One of another release or class path starts without the archive, and need not say so."""
    # A JVM that is told of an archive and finds none leaves out that of Java's own classes, too.
    return (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable", "-Xlog:all=error:stderr") if ARCHIVE.exists() else ()


class _ArchivingBroker(LocalBroker):
    """Writes the archive when it is stopped."""

    @property
    def archive(self) -> Path:
        return self.directory / ARCHIVE.name

    def _jvm_options(self) -> tuple[str, ...]:
        return (*super()._jvm_options(), "-Xlog:disable", f"-XX:ArchiveClassesAtExit={self.archive}")


def make_archive() -> None:
    """Of a broker that has made a topic. Takes 10 CPU-s; each broker's start takes 2 less from then on."""
    with TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        broker = _ArchivingBroker(Path(folder, "broker"))
        with broker:
            broker.create_topic("one")
        broker.archive.rename(ARCHIVE)


if __name__ == "__main__" and not ARCHIVE.exists():
    make_archive()
