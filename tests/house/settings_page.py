"""Writes docs/settings.md from the models of the settings: ``python -m tests.house.settings_page``.

A setting's description is the text under it in the source, its default what holds where nobody sets it, its unit the
end of its name.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from compaction.compaction_limits import CompactionLimits
from compaction.merge_limits import MergeLimits
from engine.formats.codec import DEFAULT_INFER_RECORDS
from engine.parquet.row_counts import DEFAULT_WINDOW_ROWS
from engine.table.history_limits import HistoryLimits
from floeberg.settings import Settings
from floeberg.settings.doors import Listen, TlsSettings
from floeberg.settings.registry import RegistrySettings
from floeberg.settings.retention import RetentionSettings
from floeberg.settings.topic import TopicSettings
from retention.sweep_limits import SweepLimits
from tiering.tiering_limits import TieringLimits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

_HEAD = """\
# Settings

Written from the program's own models by `python -m tests.house.settings_page`; a test keeps it so.

A daemon reads one file: the one that `--config` or `$FLOEBERG_CONFIG` names, else `floeberg.toml` in the working
directory, else `/etc/floeberg/floeberg.toml`. Only `[broker] bootstrap` and `log_dirs` are required; `floeberg init`
asks the broker and writes both, and `floeberg check` tries all of it before a start. A name that is no setting is
refused.

Each value can also come from the environment, which wins over the file: `FLOEBERG_`, the section, two underscores and
the name (`FLOEBERG_BROKER__BOOTSTRAP`), or the name alone where it stands in no section (`FLOEBERG_DATA_DIR`). Lists
are written with commas or as JSON, tables as JSON (`FLOEBERG_TOPICS='[{"name": "orders", "freshness_ms": 5000}]'`).
Relative paths start at the file's folder. A change needs a restart of the daemon.

`examples/floeberg.toml` in the repository shows all of this as one commented file.
"""

_UNSET_MEANS: Mapping[str, object] = {
    "infer_records": DEFAULT_INFER_RECORDS,
    "cluster_window_rows": DEFAULT_WINDOW_ROWS,
}
"""What holds where a setting is None, beside what the rooms' limits say."""

_LIMITS = {
    "tiering": (TieringLimits(),),
    "compaction": (CompactionLimits(), MergeLimits()),
    "history": (HistoryLimits(), SweepLimits()),
}
"""By section: whose fields of the same name hold where a setting is None."""

_WORDS = {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "text", Path: "a path"}
_MS = {86_400_000: "d", 3_600_000: "h", 60_000: "min", 1_000: "s"}
_BYTES = {1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the page."""

    name: str
    default: str
    unit: str
    values: str
    description: str

    @property
    def row(self) -> str:
        cells = (f"`{self.name}`", self.default, self.unit, self.values, self.description)
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def sections() -> Iterator[tuple[str, str, list[Setting]]]:
    """(title, what it is about, its settings), in the page's order."""
    models = {name: field.annotation for name, field in Settings.model_fields.items() if _is_model(field.annotation)}
    yield "At the top", "Before any section.", _settings(Settings, leave_out={*models, "topics"})
    for name, model in models.items():
        yield f"[{name}]", _about(model), _settings(model, limits=_LIMITS.get(name, ()))
    yield "[log_door.tls], [table_door.tls]", _about(TlsSettings), _settings(TlsSettings)
    yield "[[topics]]", _about(TopicSettings), _settings(TopicSettings)
    yield "[topics.retention]", _about(RetentionSettings), _settings(RetentionSettings)
    yield "[topics.schemas]", _about(RegistrySettings), _settings(RegistrySettings)


def page() -> str:
    """The whole text of docs/settings.md."""
    parts = [_HEAD]
    for title, about, settings in sections():
        parts.append(f"## {f'`{title}`' if title.startswith('[') else title}\n\n{about}\n")
        if settings:
            head = "| setting | default | unit | values | what |\n|---|---|---|---|---|"
            parts.append("\n".join([head, *(setting.row for setting in settings)]) + "\n")
    return "\n".join(parts)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _settings(
    model: type[BaseModel], *, limits: tuple[object, ...] = (), leave_out: set[str] = frozenset()
) -> list[Setting]:
    told = _texts(model)
    return [
        Setting(
            name=name,
            default=_default(name, field, limits),
            unit=_unit(name),
            values=_values(field.rebuild_annotation(), _unit(name)),
            description=_markdown(told.get(name, "")),
        )
        for name, field in model.model_fields.items()
        if name not in leave_out
    ]


def _texts(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field in the source of the class and of those that it is made of."""
    made_of = (
        base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base.__module__ == model.__module__
    )
    return {name: text for one in made_of for name, text in _own_texts(one).items()}


def _own_texts(model: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    pairs = zip(tree.body, tree.body[1:], strict=False)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _about(model: object) -> str:
    return _markdown(inspect.getdoc(model) or "")


def _markdown(text: str) -> str:
    one_line = " ".join(text.split()).replace("``", "`")
    return re.sub(r"\((\w+\.md)\)", r"([\1](\1))", one_line)


def _default(name: str, field: FieldInfo, limits: tuple[object, ...]) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is None:
        value = next((getattr(one, name) for one in limits if hasattr(one, name)), _UNSET_MEANS.get(name))
    if value is None or value in ((), {}) or (_is_model(type(value)) and not isinstance(value, Listen)):
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(value, _unit(name))
    shown = str(value) if isinstance(value, (Path, Listen)) else value
    return f"`{json.dumps(shown)}`"


def _unit(name: str) -> str:
    return next((unit for unit in ("ms", "bytes", "rows") if unit in name.split("_")), "")


def _number(value: int, unit: str) -> str:
    larger = {"ms": _MS, "bytes": _BYTES}.get(unit, {})
    fitting = next((f" ({value // size} {word})" for size, word in larger.items() if value and value % size == 0), "")
    return f"`{value}`{fitting}"


def _values(annotation: Any, unit: str) -> str:
    """What may be written, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [bound for one in parts[1:] for bound in (*getattr(one, "metadata", ()), one)]
        return _values(parts[0], unit) + _bounds(bounds, unit)
    if origin in (Union, UnionType):
        kinds = (_values(part, unit) for part in parts if part is not NoneType)
        return ", or ".join(dict.fromkeys(kinds))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(part)}`" for part in parts)
    if origin is tuple:
        return "a list"
    if annotation is Listen:
        return '`"host:port"`'
    if annotation is SecretStr:
        return "a secret"
    return _WORDS.get(annotation, "a table")


def _bounds(bounds: list[object], unit: str) -> str:
    found = []
    for bound in bounds:
        if isinstance(bound, Ge) and bound.ge != 0:
            found.append(f"at least {_number(bound.ge, unit)}")  # type: ignore[arg-type]
        elif isinstance(bound, Gt):
            found.append(f"above {_number(bound.gt, unit)}")  # type: ignore[arg-type]
        elif isinstance(bound, Le):
            found.append(f"at most {_number(bound.le, unit)}")  # type: ignore[arg-type]
        elif isinstance(bound, MinLen):
            found.append("not empty")
    return "".join(f", {one}" for one in dict.fromkeys(found))


if __name__ == "__main__":
    PAGE.write_text(page())
