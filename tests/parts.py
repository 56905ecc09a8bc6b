"""Every test, as ``make test`` runs them: the parts beside each other, and what failed in them at the very end.

    python -m tests.parts WORKERS SERVER_WORKERS

Tests with servers wait for them half of the time; the others run beside them, in processes of their own, and are what
is shown meanwhile. The output of each part stays whole in ``build/tests-<part>.txt``. Ends with 1 when one of them
failed; all of them run to their end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from floeberg.processes.tied_process import tied

SERVERS = "broker or spark or catalog"
CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": "build/numba-checked"}
# With these set, pytest prints whole differences, thousands of lines in which nobody finds what failed.
NOT_INHERITED = {"CI", "BUILD_NUMBER"}
LINE_WIDTH = "240"
"""Of pytest's own lines, in columns: a test's name and the reason on one. ``tests/conftest.py`` keeps it from tests."""
SUMMARY = " short test summary info "
"""In the line under which pytest lists what failed."""
LAST_LINES = 15
"""Shown of a part that failed and lists nothing: it did not come so far."""


@dataclass(slots=True, kw_only=True)
class Part:
    """A command that runs; what it prints is in ``output``."""

    name: str
    process: subprocess.Popen[str]
    output: Path

    @classmethod
    def start(cls, name: str, arguments: list[str], settings: dict[str, str] | None = None) -> Part:
        """``arguments`` of Python, tied to this process; ``settings`` come on top of its environment."""
        inherited = {word: value for word, value in os.environ.items() if word not in NOT_INHERITED}
        output = Path("build", f"tests-{name}.txt")
        with output.open("w") as file:
            process = subprocess.Popen(
                tied([sys.executable, *arguments]),
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**inherited, "COLUMNS": LINE_WIDTH, **(settings or {})},
                text=True,
            )
        return cls(name=name, process=process, output=output)

    @classmethod
    def of_tests(cls, name: str, marks: str, workers: str, settings: dict[str, str] | None = None) -> Part:
        shared_out = ["-n", workers, "--dist", "loadgroup", *(["--no-loadscope-reorder"] if marks == SERVERS else [])]
        return cls.start(name, ["-m", "pytest", *shared_out, "-m", marks], settings)

    def show(self) -> None:
        """What it prints, until it has ended."""
        with self.output.open() as written:
            ended = False
            while not ended:
                ended = _has_ended(self.process)
                print(written.read(), end="", flush=True)

    def summary(self) -> str:
        """Which tests failed, one a line with the reason, and the last line; the last lines where none did so."""
        code = self.process.wait()
        text = self.output.read_text(errors="replace")
        lines = text.splitlines()
        listed = text.rpartition(SUMMARY)[2].splitlines()
        failed = [line for line in listed if line.startswith(("FAILED ", "ERROR "))]
        told = [*failed, *(line.strip("= ") for line in lines[-1:])] if failed or code == 0 else lines[-LAST_LINES:]
        return "\n".join([f"== {self.name}: {'failed' if code else 'passed'}, {self.output}", *told])


def _has_ended(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return False
    return True


def main(workers: str, server_workers: str) -> int:
    Path("build").mkdir(exist_ok=True)
    # Compiled once, beside the tests: each worker would compile them all, and numba's cache has no lock.
    kernels = Part.start("kernels", ["-m", "floeberg.kernels"], CHECKED)
    others = Part.of_tests("without-servers", f"not ({SERVERS})", workers)
    Part.start("class-archive", ["-m", "tests.support.class_archive"]).process.wait()
    servers = Part.of_tests("with-servers", SERVERS, server_workers)
    others.show()
    kernels.process.wait()
    checked = Part.of_tests("checked-kernels", "kernels", workers, CHECKED)
    parts = (others, kernels, checked, servers)
    print("", *(part.summary() for part in parts), sep="\n\n")
    return int(any(part.process.returncode for part in parts))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
