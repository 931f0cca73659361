"""A server that decides over HTTP: check its answers, then measure it under load."""

from __future__ import annotations

import http.client
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.model import Question
from ops.bench.closed_loop import LoadReport
from ops.bench.decisions import check_agreement
from ops.bench.processes import Command, capture_json, cpu_seconds

_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A server's API: ``one`` formats a question, ``many`` joins several."""

    name: str
    one_path: str
    many_path: str
    one: Callable[[Question], Any]
    many: Callable[[Sequence[Any]], Any]
    is_allowed: Callable[[Any], bool]


def connect_http(
    host: str, ca_file: Path | None, timeout_seconds: float
) -> http.client.HTTPConnection:
    """Return a connection for HTTP, or for HTTPS if a CA file is given."""
    if ca_file is None:
        return http.client.HTTPConnection(host, timeout=timeout_seconds)
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(host, timeout=timeout_seconds, context=context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The number of connections, and of questions per request."""

    connections: int
    each: int

    def __str__(self) -> str:
        plural = "" if self.connections == 1 else "s"
        return f"{self.each} a request, {self.connections} connection{plural}"


class ServerFigures(msgspec.Struct, frozen=True):
    """A load's results: times per request, and the server's CPU per decision."""

    decisions_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server at ``host`` (``host:port``).

    ``token_file`` contains the caller's token; ``ca_file`` the CA's certificate, for a server with
    TLS.
    """

    surface: Surface
    host: str
    process_id: int
    token_file: Path | None = None
    ca_file: Path | None = None

    def check(self, questions: Sequence[Question], expected: str) -> None:
        """Ask each question once.

        Raises:
            DisagreementError: an answer differs from ``expected``, an A or a D for each question.
        """
        surface = self.surface
        connection = connect_http(self.host, self.ca_file, _TIMEOUT_SECONDS)
        headers = {"Content-Type": "application/json"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        given = ""
        for question in questions:
            body = msgspec.json.encode(surface.one(question))
            connection.request("POST", surface.one_path, body, headers)
            answer = msgspec.json.decode(connection.getresponse().read())
            given += "A" if surface.is_allowed(answer) else "D"
        connection.close()
        check_agreement(expected, given, questions, surface.name)

    def drive(
        self, questions: Sequence[Question], load: Load, directory: Path, seconds: float
    ) -> ServerFigures:
        """Ask the questions for ``seconds``, from another process.

        Raises:
            ProcessError: a request was not answered with 200.
        """
        surface = self.surface
        requests = [surface.one(question) for question in questions]
        path = surface.one_path
        if load.each > 1:
            path = surface.many_path
            requests = [
                surface.many(requests[start : start + load.each])
                for start in range(0, len(requests), load.each)
            ]
        bodies = directory / f"{surface.name}-{load.each}.bodies"
        bodies.write_bytes(b"\n".join(msgspec.json.encode(body) for body in requests))
        command: Command = [
            sys.executable, "-m", "ops.bench.http_load",
            self.host, path, bodies, str(load.connections), str(seconds),
        ]  # fmt: skip
        if self.token_file is not None:
            command = [*command, "--token", self.token_file]
        if self.ca_file is not None:
            command = [*command, "--ca", self.ca_file]
        before = cpu_seconds(self.process_id)
        report = capture_json(command, LoadReport, timeout_seconds=_TIMEOUT_SECONDS)
        used = cpu_seconds(self.process_id) - before
        return ServerFigures(
            decisions_per_second=report.requests_per_second * load.each,
            p50_ms=report.p50_ms,
            p99_ms=report.p99_ms,
            # All requests, including the warm-up's, because the CPU time includes it.
            cpu_us=used / (report.requests * load.each) * 1e6,
        )
