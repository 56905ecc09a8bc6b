"""The image's steps, run without an engine: each RUN and COPY of the Dockerfile below a folder that stands for ``/``.

What only a container can do is left out: the base image's packages. Run by ``make test-image``: minutes, and a GB from
the package registry.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.dockerfile import ROOT, instructions

_PATHS = re.compile(r"(?<![\w.~-])/(?=(opt|src|plugin|etc/floeberg|var/lib/floeberg|var/cache/floeberg)\b)")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last stage's file system, as far as its steps made it; stages share it, as one copies from the other."""
    root = tmp_path_factory.mktemp("image")
    for name, rest in instructions():
        if name == "RUN" and not rest.startswith("apt-get"):
            command = _PATHS.sub(f"{root}/", rest).replace("install -d -o 1000 -g 1000", "install -d")
            ran = subprocess.run(["bash", "-euc", command], cwd=root, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, f"{rest}\n{ran.stdout}{ran.stderr}"
        elif name == "COPY" and not rest.startswith("--from"):
            _copy(*rest.split(), root)
    return root


def _copy(source: str, target: str, root: Path) -> None:
    """As the engine does: without what .dockerignore names."""
    into = root / target.strip("/")
    into.mkdir(parents=True, exist_ok=True)
    if source != ".":
        shutil.copy(ROOT / source, into)
        return
    ignored = (ROOT / ".dockerignore").read_text().split()

    def left_out(folder: str, names: list[str]) -> set[str]:
        within = Path(folder).relative_to(ROOT)
        return {name for name in names if name == "__pycache__" or str(within / name) in ignored}

    shutil.copytree(ROOT, into, ignore=left_out, dirs_exist_ok=True)


def run(root: Path, *command: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{root}/opt/floeberg/bin:{os.environ['PATH']}", "HOME": str(home)}
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)


def test_image_has_program_plugin_and_compiled_kernels(root: Path, tmp_path: Path) -> None:
    assert run(root, "floeberg", "--version", home=tmp_path).stdout.startswith("floeberg ")
    assert (root / "opt/floeberg/plugin/floeberg-plugin.jar").stat().st_size > 10_000
    packed = list((root / "opt/floeberg").rglob("kernels/compiled/*.nbc"))
    assert packed
    compiled = run(root, "python", "-m", "floeberg.kernels", home=tmp_path)
    assert (compiled.returncode, compiled.stdout + compiled.stderr) == (0, ""), "nothing is left to compile"
    assert not (tmp_path / ".cache").exists()


def test_image_runs_from_itself_and_not_from_its_sources(root: Path, tmp_path: Path) -> None:
    where = run(root, "python", "-c", "import engine; print(engine.__file__)", home=tmp_path).stdout
    assert where.startswith(str(root / "opt/floeberg"))
    assert not list((root / "opt/floeberg").rglob("site-packages/tests"))
