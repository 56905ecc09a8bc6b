"""TLS at the doors: a door's certificate, read again when its files change, and what our own clients trust it by."""

from __future__ import annotations

import ssl

import structlog

from engine.errors import Invalid
from floeberg.settings.doors import DoorSettings, TlsSettings
from floeberg.settings.file_state import FileState, file_state

LOOK_AGAIN_SECONDS = 1.0
"""Between two looks at the files; only who connects makes one."""

_log = structlog.get_logger(__name__)


class Certificate:
    """Not for several threads at a time: the event loop's."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ``Invalid`` where certificate and key can't be used."""
        self._settings = settings
        self._seen = self._state()
        self._context = self._loaded()
        self._looked_at = float("-inf")

    def context(self, now: float) -> ssl.SSLContext:
        """For a connection that begins ``now``, in seconds of a monotonic clock. New files that can't be used (half of
        them may be in place) leave what was there, and are looked at again when they change once more."""
        if now >= self._looked_at + LOOK_AGAIN_SECONDS:
            self._looked_at = now
            found = self._state()
            if found != self._seen:
                self._seen = found
                try:
                    self._context = self._loaded()
                    _log.info("certificate_read_again", file=str(self._settings.cert_file))
                except Invalid as error:
                    _log.error("certificate_not_read", problem=str(error))
        return self._context

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A key with a password would have it asked for at the terminal.
            context.load_cert_chain(self._settings.cert_file, self._settings.key_file, password=_no_password)
        except (OSError, ValueError) as error:
            raise Invalid(
                f"The door's certificate and key can't be used: {error}",
                file=str(self._settings.cert_file),
                next_step="cert_file has the certificate and what is between it and the authority, key_file its key"
                " without a password, both as PEM",
            ) from error
        return context

    def _state(self) -> tuple[FileState, ...]:
        return tuple(map(file_state, (self._settings.cert_file, self._settings.key_file)))


def _no_password() -> str:
    raise ValueError("the key has a password")


def client_trust(door: DoorSettings) -> ssl.SSLContext:
    """What a program of ours knows a door by. Raises ``Invalid`` where ``ca_file`` can't be used."""
    ca_file = None if door.tls is None else door.tls.ca_file
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise Invalid(
            f"The certificates that the door is to be known by can't be read: {error}",
            file=str(ca_file),
            next_step="tls.ca_file has the authority's certificate as PEM",
        ) from error
