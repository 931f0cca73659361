"""The daemons of a soak: one with a log of its own and two workers, one that follows a quorum.

``brokers`` has a third one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from random import Random
from ssl import SSLContext
from threading import Lock
from types import SimpleNamespace
from typing import IO, Any, Final

from authorizerd.acl.model import Acl, AclAdded, Question
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.config.tokens import SECRET_BYTES, new_token
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tests.end_to_end.worker_processes import children
from tests.fleet.universe import DAEMON, make_ballast
from tests.soak.disk import Disk
from tests.soak.history import History
from tests.support.certificates import Authority
from tests.support.daemon_process import COMMAND, ROOT, new_log, write_config
from tests.support.forked_command import StartedCommand
from tests.support.kafka_connection import KafkaConnection
from tests.support.quorum_thread import QuorumThread
from tests.support.sasl import ITERATIONS, MECHANISMS, SALT, credential_of
from tests.support.scripted_quorum import ScriptedQuorum
from tests.support.stream_connection import StreamConnection

SECONDS_MAX: Final = 60.0
"""How long an answer, an effect or a start may take, also on a busy machine."""
CUTS_SECONDS: Final = 30.0
"""How long after a worker's death its clients may notice that their connections have ended."""
HOSTS: Final = ("127.0.0.1", "localhost")
PASSWORDS: Final = {"soak": "secret-of-soak", "stranger": "secret-of-stranger"}
"""A super user, and a user without rights; both log in with any mechanism."""
_USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
CREDENTIALS: Final = [
    credential_of(name, password, mechanism)
    for name, password in PASSWORDS.items()
    for mechanism in ScramMechanism
]
_CREATED_AT_ONCE: Final = 500
COMMON: Final = {
    "node.id": "1",
    "super.users": "User:ANONYMOUS;User:soak",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.login.plain.sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required {_USERS};",
    "listener.name.login.connections.max.reauth.ms": "60000",
    "authorizerd.decision.http": "http://127.0.0.1:0",
    "authorizerd.decision.stream": "tcp://127.0.0.1:0",
    "authorizerd.admin.http": "http://127.0.0.1:0",
    "authorizerd.console": "true",
    "authorizerd.login.timeout.ms": "5000",
    "authorizerd.watch.journal.bytes": "262144",
    # The machine may be busy with others, and clients wait for each answer.
    "authorizerd.search.timeout.ms": "60000",
    "authorizerd.update.timeout.ms": "60000",
    "authorizerd.worker.timeout.ms": "60000",
}


def wait_until(holds: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
    """Wait until ``holds`` returns True.

    Raises:
        AssertionError: it never does; the text has ``what``.
    """
    give_up = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def start_program(arguments: Sequence[str | Path], *, stderr: IO[str]) -> StartedCommand:
    """Start a command of ``authorizerd`` as a program of its own, as users do."""
    return subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stderr=stderr, text=True)


class Site:
    """A daemon that runs, with all that its clients need.

    Attributes:
        settings: the configuration; change it before ``reload``.
        history: the states of the ACLs that change.
        ballast: the number of the other ACLs.
        context: of TLS, or None.
        token: for the decision ports and the console, or None.
        disk: what fills up in episodes.
        owns_log: True if the daemon itself decides about changes.
    """

    owns_log = False
    may_refuse = False

    def __init__(
        self,
        name: str,
        folder: Path,
        settings: Mapping[str, str],
        *,
        log_dir: Path,
        disk: Disk,
        context: SSLContext | None = None,
        token: str | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.settings = dict(settings)
        self.disk = disk
        self.context = context
        self.token = token
        self.ballast: int | None = None
        self.history: History
        self.log_file = folder / "daemon.log"
        self.log_dir = log_dir
        self._cuts_until = 0.0
        self._process = self._start()

    def _start(self) -> StartedCommand:
        """Start the daemon, and wait until it is ready."""
        ready = self.folder / "ready.json"
        config = self._write_config()
        with self.log_file.open("w") as log:
            process = start_program(
                ["serve", "--config", config, "--ready-file", ready], stderr=log
            )
        try:
            wait_until(lambda: ready.exists() or process.poll() is not None, "the daemon is ready")
            assert process.poll() is None, self.log_file.read_text()
        except BaseException:
            process.kill()
            process.wait()
            raise
        self.ready: dict[str, Any] = json.loads(ready.read_bytes())
        return process

    def _write_config(self) -> Path:
        return write_config(self.folder, self.log_dir, self.settings)

    @property
    def has_workers(self) -> bool:
        return "authorizerd.workers" in self.settings

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers, the oldest one first."""
        return sorted(children(self.process_id)) if self.has_workers else []

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the daemon runs."""
        return self._process.poll()

    def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def allow_cuts(self) -> None:
        """Let connections to the decision ports end for a while, because a worker ends."""
        self._cuts_until = time.monotonic() + CUTS_SECONDS

    @property
    def allows_cuts(self) -> bool:
        return time.monotonic() < self._cuts_until

    @property
    def http_headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        return (
            headers if self.token is None else headers | {"Authorization": f"Bearer {self.token}"}
        )

    @property
    def judge(self) -> History:
        return self.history

    def allows(self, status: int, text: str) -> str | None:
        """Return the reason for which this answer over HTTP may come, None if it may not."""
        rows = (
            (503, "search", "too many searches"),
            (400, "too old", "no longer kept"),
            (503, "the files of the log end", "not in the copy yet"),
        )
        return next((why for code, part, why in rows if code == status and part in text), None)

    def draw_question(self, chance: Random) -> Question:
        return DAEMON.draw_question(chance)

    def http(self) -> HTTPConnection:
        """Return a connection to the decision port that connects again after ``close``."""
        host, _, port = self.ready["decision_http"].rpartition(":")
        if self.context is None:
            return HTTPConnection(host, int(port), timeout=SECONDS_MAX)
        return HTTPSConnection(host, int(port), timeout=SECONDS_MAX, context=self.context)

    def admin(self) -> HTTPConnection:
        return HTTPConnection(self.ready["admin_http"], timeout=SECONDS_MAX)

    def stream(self, token: str | None = None) -> StreamConnection:
        """Return a connection that has presented the site's token, or this one."""
        token = self.token if token is None else token
        connection = StreamConnection(self.ready["decision_stream"], token, self.context)
        connection.socket.settimeout(SECONDS_MAX)
        return connection

    def kafka(
        self, listener: str = "PLAINTEXT", context: SSLContext | None = None
    ) -> KafkaConnection:
        """Return a connection to a listener; ``context`` may have a client's certificate."""
        if context is None and listener != "PLAINTEXT":
            context = self.context
        connection = KafkaConnection(self.ready["listeners"][listener], context=context)
        connection.socket.settimeout(SECONDS_MAX)
        return connection

    def metrics(self) -> dict[str, float]:
        """Return all samples of /metrics by their full names."""
        with closing(self.admin()) as connection:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            text = response.read().decode()
        assert response.status == 200, text
        pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def metric(self, name: str) -> float:
        return self.metrics()[name]

    def signal_reload(self, *logged: str) -> None:
        """Write the configuration, send SIGHUP, and wait until each text is logged once more."""
        texts = logged or ("the configuration is reloaded", *self._workers_follow)
        before = [self.count_logged(text) for text in texts]
        self._write_config()
        self._process.send_signal(signal.SIGHUP)
        for text, count in zip(texts, before, strict=True):
            self._wait_until_logged(text, count)

    def _wait_until_logged(self, text: str, count: int) -> None:
        wait_until(lambda: self.count_logged(text) > count, f"{text!r} is logged")

    @property
    def _workers_follow(self) -> tuple[str, ...]:
        return ("every worker has the settings in force",) if self.has_workers else ()

    def count_logged(self, text: str) -> int:
        return self.log_file.read_text().count(text)


_PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT", "SECURE": "SSL", "CERTIFIED": "SSL", "LOGIN": "SASL_SSL",
}  # fmt: skip
"""The listeners of the daemon with a log of its own. CERTIFIED requires a certificate."""


class OwnLogSite(Site):
    """A daemon with a log of its own in tiny segments, two workers, TLS, tokens and an audit.

    Attributes:
        authority: the CA of its certificate.
        tokens: the lines of the tokens file.
        audit_file: where the audit goes, on a disk of its own that fills up.
        refuses_changes: True while the log cannot grow.
        refusals: how many changes were refused then.
    """

    owns_log = True

    def __init__(self, folder: Path, *, ballast: int, log_disk: Disk, audit_disk: Disk) -> None:
        self.refuses_changes = False
        self.refusals = 0
        self.authority = Authority(folder)
        self.tokens_file = folder / "tokens"
        self.audit_disk = audit_disk
        self.audit_file = audit_disk.folder / "audit.log"
        token, line = new_token("soak", "User:soak", os.urandom(SECRET_BYTES))
        self.tokens = {"soak": line}
        self._write_tokens()
        settings = {
            **COMMON,
            **self.authority.server_keys(),
            **self.authority.server_keys(""),
            "listeners": ",".join(f"{each}://127.0.0.1:0" for each in _PROTOCOLS),
            "listener.security.protocol.map": ",".join(map(":".join, _PROTOCOLS.items())),
            "listener.name.certified.ssl.client.auth": "required",
            "listener.name.certified.ssl.truststore.location": str(self.authority.ca_file),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
            "authorizerd.decision.http": "https://127.0.0.1:0",
            "authorizerd.decision.stream": "tls://127.0.0.1:0",
            "authorizerd.tokens.file": str(self.tokens_file),
            "authorizerd.workers": "2",
            "authorizerd.audit.log": str(self.audit_file),
            "metadata.log.segment.bytes": "16384",
            "metadata.log.max.record.bytes.between.snapshots": "32768",
            "metadata.max.retention.bytes": "1000000",
        }
        super().__init__(
            "own",
            folder,
            settings,
            log_dir=new_log(log_disk.folder),
            disk=log_disk,
            context=self.authority.client_context(),
            token=token,
        )
        with closing(self.kafka()) as admin:
            acls = make_ballast(ballast)
            for begin in range(0, ballast, _CREATED_AT_ONCE):
                results = admin.create(*acls[begin : begin + _CREATED_AT_ONCE])
                assert not any(results), results
            _create_users(admin)
        self.ballast = ballast
        with closing(self.stream()) as connection:
            self.history = History(frozenset(), connection.greeting.offset)

    def _write_tokens(self) -> None:
        """Replace the file atomically."""
        new = self.tokens_file.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in self.tokens.values()))
        new.chmod(0o640)
        new.replace(self.tokens_file)

    def replace_token(self, name: str) -> str:
        """Give ``name`` a new token in the file, and return it. It is valid after a reload."""
        token, self.tokens[name] = new_token(name, f"User:{name}", os.urandom(SECRET_BYTES))
        self._write_tokens()
        return token


WRITES: Final[Mapping[str, Mapping[str, str]]] = {
    "as-self": {},
    "forward": {
        "authorizerd.writes.forward.principals": "User:ANONYMOUS;User:soak",
        "authorizerd.writes.forward.privileged": "anonymous,super-users,local-users",
    },
}
"""How the follower sends changes to the controllers, and the other keys of each way."""


def _create_users(admin: KafkaConnection) -> None:
    for each in CREDENTIALS:  # a request may name a user once
        mechanism = ScramMechanism(each.mechanism)
        upserted = SimpleNamespace(
            name=each.user,
            mechanism=mechanism,
            iterations=ITERATIONS,
            salt=SALT,
            salted_password=salt_password(mechanism, PASSWORDS[each.user], SALT, ITERATIONS),
        )
        answer = admin.ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=(), upsertions=[upserted]
        )
        assert answer.results[0].error_code == 0, answer


class FollowerSite(Site):
    """A daemon that follows a scripted quorum over TCP, with everything in one process.

    Attributes:
        ids: the ids of the ACLs that change, in the quorum's log.
        writing: a lock; hold it to change the quorum's log.
    """

    def __init__(
        self, folder: Path, *, ballast: int, disk: Disk, quorum: QuorumThread, writes: str
    ) -> None:
        self.quorum = quorum
        self.ids: dict[Acl, bytes] = {}
        self.writing = Lock()
        self._next_id = 1 << 40
        records = [AclAdded(self.new_id(), each) for each in make_ballast(ballast)]
        quorum.do(ScriptedQuorum.append, *records, *CREDENTIALS)
        settings = {
            **COMMON,
            **quorum.follower_keys,
            "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT"
            ),
            "authorizerd.writes": writes,
            **WRITES[writes],
        }
        super().__init__("follower", folder, settings, log_dir=disk.folder / "copy", disk=disk)
        self.ballast = ballast
        offset = self._committed_offset()
        wait_until(
            lambda: self.metric("authorizerd_snapshot_offset") == offset, "it has the quorum's ACLs"
        )
        self.history = History(
            frozenset(), offset, newest_offset=self._committed_offset, is_one_process=True
        )

    def new_id(self) -> bytes:
        self._next_id += 1
        return self._next_id.to_bytes(16, "big")

    def _committed_offset(self) -> int:
        return self.quorum.do(lambda each: each.leader.high_watermark - 1)
