"""The allocator's setting, in a process of its own: it can't be taken back."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

_FAULTS_OF_A_SECOND_BLOCK = """
import resource, sys
import numpy as np
from floeberg.daemon.freed_memory import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [np.ones(24 << 20, np.uint8) for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS_OF_A_SECOND_BLOCK, mode], capture_output=True, text=True, check=False
    )
    if done.returncode == 3:
        pytest.skip("this C library has no mallopt")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_blocks_after_the_first_need_no_fresh_pages() -> None:
    pages = 3 * (24 << 20) // resource.getpagesize()
    assert faults("kept") < pages // 10
