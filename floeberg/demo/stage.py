"""How the demo speaks: chapters, lines and progress; bars on a terminal, plain lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

PLAIN_LINE_SECONDS = 2.0
"""Where there is no terminal, progress is a line every so often."""


class Stage:
    """Prints to ``console`` and keeps the time that each chapter took, in seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.chapter_seconds: dict[str, float] = {}
        self._started = time.monotonic()
        self._chapter: tuple[str, float] | None = None

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self._started

    def chapter(self, title: str) -> None:
        """Begin a chapter; the one before has ended."""
        self.end_chapter()
        self._chapter = (title, time.monotonic())
        number = len(self.chapter_seconds) + 1
        self.console.print(f"\n[bold cyan]{number}[/bold cyan] [bold]{title}[/bold]")

    def end_chapter(self) -> None:
        if self._chapter is not None:
            title, started = self._chapter
            self.chapter_seconds[title] = time.monotonic() - started
            self._chapter = None

    def say(self, text: str) -> None:
        """One line of the story (rich markup)."""
        self.console.print(f"  {text}", soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Bars]:
        """Bars that live as long as the block."""
        if not self.console.is_terminal:
            yield _PlainBars(self)
            return
        columns = (
            TextColumn("  "),
            SpinnerColumn(),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[note]}", style="dim"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, refresh_per_second=8) as shown:
            yield _RichBars(shown)


class Bars:
    """Progress of several things at once."""

    def show(self, name: str, done: float, total: float, note: str = "") -> None:
        raise NotImplementedError


class _RichBars(Bars):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, name: str, done: float, total: float, note: str = "") -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, note=note)
        self._progress.update(self._tasks[name], completed=min(done, total), total=total, note=note)


class _PlainBars(Bars):
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._shown: dict[str, tuple[float, bool]] = {}

    def show(self, name: str, done: float, total: float, note: str = "") -> None:
        now, is_done = time.monotonic(), done >= total
        last, was_done = self._shown.get(name, (0.0, False))
        if (is_done and was_done) or (not is_done and now - last < PLAIN_LINE_SECONDS):
            return
        self._shown[name] = (now, is_done)
        share = done / total if total else 1.0
        self._stage.say(f"{name}: {min(share, 1.0):.0%}{'  ' + note if note else ''}")
