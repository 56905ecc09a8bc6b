"""Keeps files and functions small, and machines out of the tree: a ratchet whose lists only shrink."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    "engine",
    "topics",
    "workers",
    "tiering",
    "compaction",
    "latest",
    "retention",
    "serving",
    "streams",
    "floeberg",
)
ROOMS = (*PRODUCT, "bench", "plugin", "tests")
LONGEST_FILE_LINES = 400
LONGEST_FUNCTION_LINES = 70
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "handler", "misc"}

# Today's offenders, with their size; a size may only fall, and an entry that is no longer needed must go.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def sources(*endings: str) -> list[Path]:
    return [path for path in tracked_files() if path.suffix in endings and path.relative_to(ROOT).parts[0] in ROOMS]


def functions(path: Path) -> list[tuple[str, int]]:
    tree = ast.parse(path.read_text(), str(path))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in ast.walk(tree) if isinstance(node, kinds)]


def check_ratchet(found: dict[str, int], allowed: dict[str, int], limit: int) -> None:
    grown = {name: size for name, size in found.items() if size > max(limit, allowed.get(name, 0))}
    assert not grown, f"longer than {limit} lines (or than the ratchet allows): {grown}"
    stale = {name for name in allowed if found.get(name, 0) <= limit}
    assert not stale, f"no longer too long; take them off the list: {stale}"


def test_no_file_grows_past_what_is_read_in_one_sitting() -> None:
    found = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources(".py", ".java")}
    assert found, "no source was found"
    check_ratchet(found, LONG_FILES, LONGEST_FILE_LINES)


def test_no_function_grows_past_a_screen() -> None:
    found = {f"{path.relative_to(ROOT)}:{name}": size for path in sources(".py") for name, size in functions(path)}
    assert found, "no function was found"
    check_ratchet(found, LONG_FUNCTIONS, LONGEST_FUNCTION_LINES)


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [str(path.relative_to(ROOT)) for path in sources(".py") if path.stem in VAGUE_NAMES]
    assert not vague


def imported_packages(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(), str(path))))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in whole | parts} - sys.stdlib_module_names - set(ROOMS)


def test_every_package_that_the_product_imports_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", each)[0].lower() for each in declared}
    product = [path for path in sources(".py") if path.relative_to(ROOT).parts[0] in PRODUCT]
    imported = set().union(*map(imported_packages, product))
    assert "pyarrow" in imported
    makers = packages_distributions()
    assert not {name for name in imported if names.isdisjoint(each.lower().replace("_", "-") for each in makers[name])}


def test_pyspark_is_imported_only_in_spark_modules() -> None:
    importing = re.compile(r"^\s*(?:from|import) pyspark\b", re.MULTILINE)
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources(".py")
        if path.relative_to(ROOT).parts[0] in PRODUCT
        and not path.stem.startswith("spark_")
        and importing.search(path.read_text())
    ]
    assert not wrong


COMMITTING_CALLS = {"_do_commit", "commit_table", "commit_transaction", "commit_once", "transaction"}
"""What changes a table: pyiceberg's own calls, and the one of ours that makes them."""


def test_only_the_commit_room_commits() -> None:
    """And the catalogs, where they implement what it calls."""
    found = {
        str(path.relative_to(ROOT).parent)
        for path in sources(".py")
        if path.relative_to(ROOT).parts[0] in PRODUCT
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in COMMITTING_CALLS
    }
    assert found == {"engine/table/commit", "engine/table/catalog"}


def swallows_everything(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    """Catches whatever comes, neither raises it again at its end nor is marked as a loop's outermost guard."""
    caught = handler.type
    everything = caught is None or (isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"})
    last = handler.body[-1]
    raises_again = isinstance(last, ast.Raise) and last.exc is None
    return everything and not raises_again and "outermost guard" not in lines[handler.lineno - 1]


def test_foreign_exceptions_are_not_swallowed_whole() -> None:
    wrong = []
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] not in PRODUCT:
            continue
        text = path.read_text()
        handlers = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ExceptHandler)]
        lines = text.splitlines()
        wrong += [f"{path.relative_to(ROOT)}:{one.lineno}" for one in handlers if swallows_everything(one, lines)]
    assert not wrong


@pytest.mark.parametrize("pattern", [r"/root/", r"/work/(?:main|shared)", r"/home/[a-z]+/"])
def test_no_path_of_a_machine_is_in_the_tree(pattern: str) -> None:
    here = Path(__file__)
    wrong = []
    for path in tracked_files():
        if path == here or path.suffix in {".jar", ".png", ".parquet"}:
            continue
        if re.search(pattern, path.read_text(errors="ignore")):
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong


def test_marks_that_tests_are_chosen_by_stand_in_the_files_of_the_tests() -> None:
    """By their text ``tests/conftest.py`` tells which files need not be imported."""
    mark = re.compile(r"mark\.(broker|spark|catalog|kernels)\b")
    marked = {
        path for path in sources(".py") if path.parts[len(ROOT.parts)] == "tests" and mark.search(path.read_text())
    }
    assert marked
    assert {path.name for path in marked if not path.name.startswith("test_")} == set()


def test_no_test_module_is_imported_as_a_helper() -> None:
    importing = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    wrong = [str(path.relative_to(ROOT)) for path in sources(".py") if importing.search(path.read_text())]
    assert not wrong
