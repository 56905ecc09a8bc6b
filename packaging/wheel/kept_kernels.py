"""Copies the compiled kernels that fit the sources into a folder: ``python packaging/wheel/kept_kernels.py FOLDER``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from floeberg.kernels import compile_kernels, kept_files, tell_person


def main(folder: Path) -> None:
    compile_kernels(tell=tell_person)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in kept_files():
        shutil.copyfile(file, folder / file.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
