"""Names by which a door may be called."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from serving.host_names import HostNames, Misdirected

NAMES = HostNames(names=frozenset({"localhost", "kafka-1", "*.kafka.svc"}), setting="[table_door] allowed_hosts")


def called(host: str | None) -> Request:
    headers = [] if host is None else [(b"host", host.encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:7811",
        "LOCALHOST.:1",
        "kafka-1:7811",
        "a.kafka.svc",
        "127.0.0.1:1",
        "10.1.2.3",
        "[::1]:80",
    ],
)
def test_known_name_and_any_address_is_let_in(host: str) -> None:
    NAMES.check(called(host))


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", "evil.example", "evil.example:7811", "localhost.evil.example", "127.0.0.1.evil.example"),
        *("kafka.svc", "notkafka-1", "[evil.example]:80", "10.1.2.3.4", "a.kafka.svc.evil.example"),
    ],
)
def test_name_of_a_stranger_is_refused_and_the_setting_named(host: str | None) -> None:
    with pytest.raises(Misdirected, match=r"\[table_door\] allowed_hosts"):
        NAMES.check(called(host))


def test_every_name_is_good_where_the_settings_say_so() -> None:
    HostNames(names=frozenset({"*"}), setting="").check(called("evil.example"))
