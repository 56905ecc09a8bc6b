"""What tests of commands have in common."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from floeberg.commands import compact, repair


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands' set-up of the log would outlive the runner's streams."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for command in (compact, repair):
        monkeypatch.setattr(command, "configure_logging", lambda **_: None)
    yield
    structlog.configure(**before)
