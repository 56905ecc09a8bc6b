"""Which Floeberg this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """The installed distribution's version; ``unreleased`` in a checkout that was never installed."""
    try:
        return version("floeberg")
    except PackageNotFoundError:
        return "unreleased"
