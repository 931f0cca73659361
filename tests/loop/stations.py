"""Stations: a daemon's ACLs and settings, with the callers and inputs for it.

Together they cover every API, version, path and frame. ``is_whole`` adds every variant and caller,
which takes about ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from authorizerd.protocol.decisions.discovery import EVALUATIONS_PATH
from authorizerd.protocol.kafka.api import APIS, ApiKey
from tests.loop.console_requests import console_requests
from tests.loop.http_requests import OPA_PATH, decision_requests, heads
from tests.loop.kafka_requests import (
    EVERY_ACL,
    ITEMS,
    Request,
    acl_requests,
    credential_requests,
    enveloped,
    is_forwardable,
    requests_of,
)
from tests.loop.log_ins import handshakes, scram_log_ins
from tests.loop.meter import Meter
from tests.loop.players import Input, Played, Player
from tests.loop.running import ALICE, ANONYMOUS, NOBODY, ROOT, running, tls_settings, token_of
from tests.loop.stream_frames import frames
from tests.support.verification import STATE_KEY, write_findings

FEW: Final = 1000
"""Number of items in requests of older versions, unless ``is_whole``."""
BEFORE_LOG_IN: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""APIs of the log-in."""

LARGEST: Final = (EVERY_ACL, f"{ITEMS} new ACLs")
"""The Kafka requests with the largest answer, and with a large request."""

Inputs = Callable[[str, bool], Iterable[Input]]
"""Returns a caller's inputs; if the second argument is False, only some of them."""


@dataclass(frozen=True)
class Station:
    """A daemon and its inputs; ``settings`` is called with the daemon's folder."""

    acls: str
    callers: tuple[str, ...]
    inputs: Inputs
    settings: Callable[[Path], Mapping[str, str]] = field(default=lambda folder: {})
    is_loaded: bool = True


def _kafka(caller: str, is_whole: bool) -> Iterator[Input]:
    """Yield requests of every API and version, and forwarded ones."""
    for api_key, api in APIS.items():
        if api_key in BEFORE_LOG_IN or api_key is ApiKey.ENVELOPE:
            continue
        for version in api.versions:
            is_last = version == api.last_version
            if is_whole or (is_last and caller == ROOT):
                requests = requests_of(api_key, version)
            elif is_last:
                requests = requests_of(api_key, version, is_plain=True)
            elif caller == ROOT:
                requests = requests_of(api_key, version, is_plain=True, items=FEW)
            else:
                continue
            yield from requests
    if caller == ROOT:
        yield from acl_requests(APIS[ApiKey.CREATE_ACLS].last_version)
        yield from credential_requests()
    if caller != ANONYMOUS:
        yield from _envelopes(caller, is_whole)


def _envelopes(caller: str, is_whole: bool) -> Iterator[Request]:
    for version in APIS[ApiKey.ENVELOPE].versions:
        yield from requests_of(ApiKey.ENVELOPE, version)
    for api_key in filter(is_forwardable, APIS):
        inner = requests_of(
            api_key,
            APIS[api_key].last_version,
            is_plain=not is_whole,
            items=ITEMS if is_whole else FEW,
        )
        for request in inner:
            yield enveloped(request, APIS[ApiKey.ENVELOPE].last_version, f"User:{ROOT}")


def _not_loaded(caller: str, is_whole: bool) -> Iterator[Input]:
    for api_key, api in APIS.items():
        if api_key not in BEFORE_LOG_IN and api_key is not ApiKey.ENVELOPE:
            yield from requests_of(api_key, api.last_version, is_plain=True)


def _log_ins(caller: str, is_whole: bool) -> Iterator[Input]:
    """Yield requests for a connection before its log-in."""
    for api_key in (*BEFORE_LOG_IN, ApiKey.API_VERSIONS):
        for version in APIS[api_key].versions:
            yield from requests_of(api_key, version)
    yield from scram_log_ins()


def _http(caller: str, is_whole: bool) -> Iterator[Input]:
    """Yield requests to every path; the admin port has no callers."""
    yield from decision_requests(token_of(caller))
    if caller == ROOT:
        yield from heads()


def _console(caller: str, is_whole: bool) -> Iterator[Input]:
    return console_requests(token_of(caller))


def _stream(caller: str, is_whole: bool) -> Iterator[Input]:
    return iter(frames())


def _decisions(caller: str, is_whole: bool) -> Iterator[Input]:
    yield from frames()
    for request in decision_requests(token_of(caller)):
        if f"{EVALUATIONS_PATH}: evaluations" in request.name or f"{OPA_PATH}: by" in request.name:
            yield request


def _over_tls(caller: str, is_whole: bool) -> Iterator[Input]:
    """Yield handshakes, log-ins, and the largest requests and answers over TLS."""
    yield from handshakes()
    yield from scram_log_ins()
    for request in acl_requests(APIS[ApiKey.CREATE_ACLS].last_version):
        if is_whole or request.name in LARGEST:
            yield request
    if is_whole:
        yield from _http(caller, is_whole)
        yield from frames()
    else:
        yield from _decisions(caller, is_whole)


def _work_of_acls(caller: str, is_whole: bool) -> Iterator[Input]:
    """Yield the requests whose work depends on the ACLs."""
    version = APIS[ApiKey.CREATE_ACLS].last_version
    for request in acl_requests(version):
        is_whole_set = request.api_key is ApiKey.DESCRIBE_ACLS and request.name == EVERY_ACL
        if is_whole or not (request.api_key is ApiKey.CREATE_ACLS or is_whole_set):
            yield request
    yield from _decisions(caller, is_whole)


def _decisions_and_topics(caller: str, is_whole: bool) -> Iterator[Input]:
    yield from requests_of(ApiKey.METADATA, APIS[ApiKey.METADATA].last_version, is_plain=True)
    yield from _decisions(caller, is_whole)


def _audited(level: str) -> Callable[[Path], Mapping[str, str]]:
    return lambda folder: {
        "authorizerd.audit.log": str(folder / "audit.log"),
        "authorizerd.audit.level": level,
    }


STATIONS: Final[Mapping[str, Station]] = {
    "Kafka": Station("literals", (ROOT, ANONYMOUS), _kafka),
    "log-ins": Station("none", (NOBODY,), _log_ins),
    "HTTP": Station("literals", (ROOT, ALICE), _http),
    "stream": Station("literals", (ROOT, ALICE), _stream),
    "console": Station("literals", (ROOT,), _console,
                       lambda folder: {**_audited("INFO")(folder), "authorizerd.console": "true",
                                       STATE_KEY: str(write_findings(folder / "state"))}),
    "prefixes": Station("prefixes", (ROOT,), _work_of_acls),
    "denied hosts": Station("denied hosts", (ROOT,), _work_of_acls, _audited("TRACE")),
    "one topic": Station("one topic", (ROOT,), _work_of_acls, _audited("INFO")),
    "networks": Station("networks", (ROOT, ALICE), _decisions_and_topics,
                        lambda folder: {**_audited("TRACE")(folder),
                                        "authorizerd.kafka.release": "4.4"}),
    "TLS": Station("literals", (ROOT,), _over_tls, tls_settings),
    "before loading": Station("none", (ALICE, ANONYMOUS), _not_loaded, is_loaded=False),
}  # fmt: skip


async def play(
    station: Station, folder: Path, meters: list[Meter], *, is_whole: bool, repeats: int = 1
) -> list[Played]:
    """Run a daemon in ``folder``, send it the inputs, and return their longest stretches."""
    played: list[Played] = []
    async with running(folder, station.settings(folder), is_loaded=station.is_loaded) as place:
        for caller in station.callers:
            player = Player(place, meters, caller)
            inputs = station.inputs(caller, is_whole)
            played += [await player.play(each, repeats) for each in inputs]
            await player.close()
    return played
