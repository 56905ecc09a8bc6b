"""Questions to a registry over HTTP: the only seam to it.

Source: Confluent Schema Registry API reference; error codes 40401 to 40499 mean "not found".
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from engine.backoff import Backoff
from engine.clock import Clock
from engine.errors import Invalid, Unavailable

ATTEMPTS = 4  # with the waits between them, a registry that restarts in seconds is not noticed
WAITS = Backoff(first_ms=200, longest_ms=2_000)  # between attempts
CONNECT_TIMEOUT_S = 5.0
TIMEOUT_S = 10.0  # of each step: sending, the next piece of an answer
QUESTION_TIMEOUT_S = 30.0  # of all steps, attempts and references together: an answer may come a byte at a time
MAX_ANSWER_BYTES = 16 << 20  # no schema is this large; an answer that is comes from something else

_MEDIA_TYPES = "application/vnd.schemaregistry.v1+json, application/json"


class NoAnswer(Unavailable):
    """Nothing that is the registry answers, or it refuses our credentials: no other question would fare better now."""


class Absent(Invalid):
    """The registry answers that it has no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """How a registry is reached: URLs of the same one, each with any path prefix; user and password, or a token.

    ``ca_file`` is trusted instead of the usual authorities; ``cert_file`` and ``key_file`` are the client's own. The
    files are read for each question, so that renewed ones are taken up.
    """

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)

    @property
    def identity(self) -> str:
        """What tells one registry from another; without anything secret."""
        return " ".join(sorted(url.rstrip("/") for url in self.urls))


class _Transient(Exception):
    """Worth another attempt: ``reached`` where something answered, though not as a registry should."""

    def __init__(self, problem: str, *, reached: bool) -> None:
        super().__init__(problem)
        self.reached = reached


class RegistryHttp:
    """Asks the first URL that answers. Safe to use from several threads."""

    def __init__(self, access: RegistryAccess, clock: Clock) -> None:
        self.access = access
        self._urls = tuple(url.rstrip("/") for url in access.urls)
        self._preferred = 0
        self._clock = clock

    @contextmanager
    def question(self) -> Iterator[RegistryQuestion]:
        """Requests that belong together, under one time limit. Raises NoAnswer when a certificate can't be read."""
        client = self._client()
        # Closing ends a read that is under way: a time limit of the client's holds for a step only.
        limit = threading.Timer(QUESTION_TIMEOUT_S, client.close)
        limit.daemon = True
        limit.start()
        try:
            yield RegistryQuestion(self, client)
        finally:
            limit.cancel()
            client.close()

    def _client(self) -> httpx.Client:
        access = self.access
        headers = {"Accept": _MEDIA_TYPES}
        auth = None
        if access.token is not None:
            headers["Authorization"] = f"Bearer {access.token}"
        elif access.user is not None:
            auth = httpx.BasicAuth(access.user, access.password or "")
        verify: ssl.SSLContext | bool = True
        if access.ca_file is not None or access.cert_file is not None:
            verify = self._tls()
        return httpx.Client(
            headers=headers, auth=auth, timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S), verify=verify
        )

    def _tls(self) -> ssl.SSLContext:
        access = self.access
        try:
            if access.ca_file is None:
                context = httpx.create_ssl_context()
            else:
                context = ssl.create_default_context(cafile=access.ca_file)
            if access.cert_file is not None:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(access.cert_file, access.key_file, lambda: access.key_password or "")
        except (OSError, ssl.SSLError) as error:
            raise NoAnswer(
                f"a certificate for the schema registry can't be used: {error}",
                file=str(access.cert_file or access.ca_file),
                next_step="check ca_file, cert_file and key_file of the topic's schemas",
            ) from error
        return context

    def attempts(self) -> Iterator[str]:
        """The URL of each attempt, waiting before all but the first: the one that answered last, then the others."""
        first = self._preferred
        for attempt in range(max(ATTEMPTS, len(self._urls))):
            if attempt:
                self._clock.sleep(WAITS.wait_ms(attempt - 1))
            yield self._urls[(first + attempt) % len(self._urls)]

    def prefer(self, url: str) -> None:
        """Ask this one first from now on."""
        self._preferred = self._urls.index(url)

    def others(self, url: str) -> tuple[str, ...]:
        return tuple(other for other in self._urls if other != url)


class RegistryQuestion:
    """Made by ``RegistryHttp.question``."""

    def __init__(self, http: RegistryHttp, client: httpx.Client) -> None:
        self._http = http
        self._client = client

    def ask(self, path: str, what: str, parameters: Mapping[str, str] | None = None) -> Any:
        """The JSON value that ``GET path`` answers; ``what`` names what is asked for.

        Raises Absent when the registry does not have it, NoAnswer and Unavailable otherwise.
        """
        for url in self._http.attempts():
            try:
                answer = self._ask_once(url, path, parameters or {}, what)
            except _Transient as error:
                failed, failed_url = error, url
            except Absent as missing:
                return self._ask_others(url, path, parameters or {}, what, missing)
            else:
                self._http.prefer(url)
                return answer
        if failed.reached:
            raise _unavailable(Unavailable, f"{what} can't be had: {failed}", failed_url) from failed
        raise _unavailable(NoAnswer, f"the schema registry does not answer: {failed}", failed_url) from failed

    def _ask_others(self, url: str, path: str, parameters: Mapping[str, str], what: str, missing: Absent) -> Any:
        """One of several registries may not have read yet what was just registered."""
        for other in self._http.others(url):
            try:
                return self._ask_once(other, path, parameters, what)
            except (_Transient, Absent, Unavailable):
                continue
        raise missing

    def _ask_once(self, url: str, path: str, parameters: Mapping[str, str], what: str) -> Any:
        try:
            with self._client.stream("GET", url + path, params=parameters) as response:
                body = b""
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise _unavailable(Unavailable, f"{what}: the answer is larger than any schema", url)
                return _judged(response.status_code, body, what, url)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise _unavailable(NoAnswer, f"the schema registry can't be asked: {error}", url) from error
        except httpx.HTTPError as error:
            raise _Transient(str(error) or type(error).__name__, reached=False) from error
        except (OSError, RuntimeError) as error:
            # What a client that was closed under a request raises; nothing else of it does.
            if not self._client.is_closed:
                raise
            problem = f"the schema registry gives no whole answer within {QUESTION_TIMEOUT_S:.0f} s"
            raise _unavailable(NoAnswer, problem, url) from error


def _judged(status: int, body: bytes, what: str, url: str) -> Any:
    if status in (401, 403):
        raise _unavailable(NoAnswer, f"the schema registry refuses the credentials (status {status})", url)
    if status >= 500 or status in (408, 429):
        raise _Transient(f"status {status}", reached=True)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    # Only the registry's own "not found" may count as one: a proxy's page, or the registry's own for a wrong path, must
    # not make a schema unknown for good.
    if status == 404 and isinstance(answer, dict) and 40400 < _number(answer.get("error_code")) < 40500:
        raise Absent(f"{what} is not in the registry: {answer.get('message', 'not found')}", file=url)
    if status != 200 or answer is None:
        raise _Transient(f"status {status} with an answer that is no registry's", reached=True)
    return answer


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _unavailable(kind: type[Unavailable], problem: str, url: str) -> Unavailable:
    return kind(problem, file=url, next_step="check the registry's URL, its health and the credentials")
