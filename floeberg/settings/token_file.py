"""A token that lies in a file, read again when the file changes."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from floeberg.settings.file_state import file_state


class TokenFile(SecretStr):
    """Its text is what the file has now. A file that can't be read, or has no token in it (half of it may be in place),
    leaves the text there was, and is looked at again when it changes once more. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Raises ``ValueError`` where the file can't be read or has no token in it."""
        self._path = path
        # Before the text: what changes meanwhile is read again at the next look.
        self._seen = file_state(path)
        super().__init__(_read(path))

    def get_secret_value(self) -> str:
        found = file_state(self._path)
        if found != self._seen:
            self._seen = found
            self._read_again()
        return self._secret_value

    def _read_again(self) -> None:
        # Not with the settings, which every command reads: it takes a sixth of what `status` does.
        import structlog

        log = structlog.get_logger(__name__)
        try:
            self._secret_value = _read(self._path)
            log.info("token_read_again", file=str(self._path))
        except ValueError as error:
            log.error("token_not_read", file=str(self._path), problem=str(error), in_use="the one before")


def read_secret_file(path: Path) -> str:
    """Raises ``ValueError``."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the secret's file can't be read: {error}") from error


def check_token(text: str) -> None:
    """Raises ``ValueError`` for one that no HTTP header can carry."""
    if not text or not all("!" <= character <= "~" for character in text):
        raise ValueError("a token is printable ASCII without spaces, and not empty")


def _read(path: Path) -> str:
    text = read_secret_file(path)
    if not text:
        raise ValueError(f"{path} is empty")
    try:
        check_token(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return text
