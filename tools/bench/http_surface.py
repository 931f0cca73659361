"""A server that decides over HTTP: check its answers, then measure it under load."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.model import Question
from tools.bench.closed_loop import LoadReport
from tools.bench.decisions import check_agreement
from tools.bench.http_generator import HttpLoad, generate
from tools.bench.processes import ProcessError, cpu_seconds

_TIMEOUT_SECONDS: Final = 60.0
_READY_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


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


def wait_until_healthy(
    host: str, path: str, process: subprocess.Popen[bytes], ca_file: Path | None = None
) -> None:
    """Wait until a GET of ``path`` is answered with 200.

    Raises:
        ProcessError: the process ended, or the time limit was exceeded.
    """
    give_up = time.monotonic() + _READY_TIMEOUT_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        connection = connect_http(host, ca_file, _READY_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(_POLL_SECONDS)
    name = Path(str(process.args[0] if isinstance(process.args, list) else process.args)).name
    raise ProcessError(f"{name} did not become healthy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The number of connections, and of questions per request."""

    connections: int
    each: int

    def __str__(self) -> str:
        plural = "" if self.connections == 1 else "s"
        return f"{self.each} a request, {self.connections} connection{plural}"


class ServerFigures(msgspec.Struct, frozen=True):
    """A load's results. Times are per request; the CPU is the server's and its children's."""

    load: LoadReport
    decisions_per_second: float
    decisions_per_cpu_second: float


class Asked:
    """Distinct questions, and the files of their requests below ``directory``.

    **Invariant:** a file is written once for each API and size of request, outside of any timing.
    """

    def __init__(self, questions: Sequence[Question], directory: Path, name: str = "") -> None:
        self.questions: Final = questions
        self._directory: Final = directory
        self._name: Final = name
        self._written: Final[set[Path]] = set()

    def bodies(self, surface: Surface, each: int) -> Path:
        """Return a file with a request per line, ``each`` questions in a request."""
        path = self._directory / f"{surface.name}{self._name}-{each}.bodies"
        if path not in self._written:
            requests = [surface.one(question) for question in self.questions]
            if each > 1:
                requests = [
                    surface.many(requests[start : start + each])
                    for start in range(0, len(requests), each)
                ]
            path.write_bytes(b"\n".join(map(msgspec.json.encode, requests)))
            self._written.add(path)
        return path


@dataclass(slots=True, kw_only=True)
class Server:
    """A running server at ``host`` (``host:port``).

    ``token_file`` contains the caller's token; ``ca_file`` the CA's certificate, for a server with
    TLS. A peer that fails is left out. ``has_ids`` gives each request an X-Request-ID of its own.
    """

    surface: Surface
    host: str
    process_id: int
    token_file: Path | None = None
    ca_file: Path | None = None
    is_peer: bool = False
    has_ids: bool = False
    _next_question: int = field(default=0, init=False)

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

    def drive(self, asked: Asked, load: Load, seconds: float) -> ServerFigures:
        """Ask for ``seconds``, from another process.

        Each load goes on with the question after the last one that this server was asked.

        Raises:
            ProcessError: the load failed.
        """
        before = cpu_seconds(self.process_id)
        report = self._generate(asked, load, seconds)
        used = cpu_seconds(self.process_id) - before
        decided = (report.requests - report.refused) * load.each
        return ServerFigures(
            load=report,
            decisions_per_second=report.requests_per_second * load.each,
            # A quick run may use less than one clock tick of CPU time.
            decisions_per_cpu_second=decided / used if used else 0.0,
        )

    def _generate(self, asked: Asked, load: Load, seconds: float) -> LoadReport:
        surface = self.surface
        report = generate(
            HttpLoad(
                host=self.host,
                path=surface.one_path if load.each == 1 else surface.many_path,
                bodies=asked.bodies(surface, load.each),
                first=self._next_question // load.each,
                connections=load.connections,
                seconds=seconds,
                token_file=self.token_file,
                ca_file=self.ca_file,
                has_ids=self.has_ids,
            )
        )
        # Those that were in flight at the end may have been answered, too.
        self._next_question += (report.requests + load.connections) * load.each
        return report
