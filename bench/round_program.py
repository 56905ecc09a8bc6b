"""A benchmark in an interpreter of its own that measures a round whenever it is asked, and waits in between.

Two such programs take turns: what else the machine does, and how fast it happens to be, then meets both.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from floeberg.processes.tied_process import tied

_STOP_TIMEOUT_SECONDS = 60.0


def answer_rounds(measure_round: Callable[[int], dict[str, Any]]) -> None:
    """The program's side: a JSON line on stdout for each line on stdin, until there are no more."""
    for number, _ in enumerate(sys.stdin):
        print(json.dumps(measure_round(number)), flush=True)


class RoundProgram:
    """The asking side: ``python -m module options`` runs inside the context; its other output goes to ``log``."""

    def __init__(self, module: str, *options: str, log: Path) -> None:
        self._module = module
        self._options = options
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                tied([sys.executable, "-m", self._module, *self._options]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        assert process is not None, "the program is entered first"
        try:
            # No more lines: it ends by itself, and what it started with it.
            process.communicate(timeout=_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def round(self) -> dict[str, Any]:
        """Run the next round. Raises RuntimeError with the program's last words when it ends instead."""
        assert self._process is not None, "the program is entered first"
        assert self._process.stdin is not None, "its stdin is a pipe"
        assert self._process.stdout is not None, "its stdout is a pipe"
        with contextlib.suppress(BrokenPipeError):  # it has ended: that there is no answer says so, and why
            self._process.stdin.write("round\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            # A JVM's child may print too; an answer is a JSON object.
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        code = self._process.wait(_STOP_TIMEOUT_SECONDS)
        said = self._log.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"{self._module} ended with code {code}:\n{said}")
