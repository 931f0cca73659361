"""The daemons of a soak: one with a log of its own and two workers, one that follows a quorum.

``brokers`` has a third one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from ssl import SSLContext
from threading import Lock
from types import SimpleNamespace
from typing import IO, Final

from authorizerd.acl.model import Acl, AclAdded
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.config.tokens import SECRET_BYTES, new_token
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tests.fleet.client import Place
from tests.fleet.disk import Disk
from tests.fleet.universe import make_ballast
from tests.soak.history import History
from tests.support import daemon_process
from tests.support.certificates import Authority
from tests.support.daemon_process import COMMAND, ROOT, new_log, write_config
from tests.support.forked_command import StartedCommand
from tests.support.kafka_connection import KafkaConnection
from tests.support.quorum_thread import QuorumThread
from tests.support.sasl import ITERATIONS, MECHANISMS, SALT, credential_of
from tests.support.scripted_quorum import ScriptedQuorum

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
UNDELIVERED: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE)
"""Errors of changes through the follower while no controller leads."""
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


wait_until = partial(daemon_process.wait_until, seconds_max=SECONDS_MAX, pause_seconds=0.1)
"""Wait for an effect, also on a busy machine."""


def start_program(arguments: Sequence[str | Path], *, stderr: IO[str]) -> StartedCommand:
    """Start a command of ``authorizerd`` as a program of its own, as users do."""
    return subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stderr=stderr, text=True)


class Site(Place):
    """A daemon that runs, with all that its clients need.

    Attributes:
        settings: the configuration; change it before ``reload``.
        judge: knows the states of the ACLs that change.
        disk: what fills up in episodes.
        owns_log: True if the daemon itself decides about changes.
        is_full: True while its log cannot grow.
    """

    judge: History
    owns_log = False
    is_full = False
    seconds_max = SECONDS_MAX

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
        self.folder = folder / name
        self.folder.mkdir()
        self.settings = dict(settings)
        self.disk = disk
        self.context = context
        self.token = token
        self.log_file = self.folder / "daemon.log"
        self.log_dir = log_dir
        self._cuts_until = 0.0
        self.start()

    def start(self) -> None:
        """Start the daemon, also once more after ``stop``, and wait until it is ready."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        config = write_config(self.folder, self.log_dir, self.settings)
        with self.log_file.open("a") as log:
            self.process = process = start_program(
                ["serve", "--config", config, "--ready-file", ready], stderr=log
            )
        try:
            wait_until(lambda: ready.exists() or process.poll() is not None, "the daemon is ready")
            assert process.poll() is None, self.log_file.read_text()
        except BaseException:
            process.kill()
            process.wait()
            raise
        self.ready = json.loads(ready.read_bytes())

    @property
    def exit_code(self) -> int | None:
        return self.process.poll()

    def stop(self) -> int:
        """Send SIGTERM, wait for the end and return the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def allow_cuts(self) -> None:
        """Let connections to the decision ports end for a while, because a worker ends."""
        self._cuts_until = time.monotonic() + CUTS_SECONDS

    @property
    def allows_cuts(self) -> bool:
        return time.monotonic() < self._cuts_until

    def allows(self, status: int, text: str) -> str | None:
        """Return the reason for which this answer over HTTP may come, None if it may not."""
        rows = (
            (503, "too many questions", "too many questions"),
            (400, "too old", "no longer kept"),
            (503, "the files of the log end", "not in the copy yet"),
        )
        return next((why for code, part, why in rows if code == status and part in text), None)

    def why_refused(self, error: ApiError | None, *, was_full: bool = False) -> str | None:
        """Return the reason for which a change may have this error, None if it may not.

        Args:
            was_full: True if the log could not grow when the change was sent.
        """

    def admin(self) -> HTTPConnection:
        return HTTPConnection(self.ready["admin_http"], timeout=SECONDS_MAX)

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
        texts = logged or ("the configuration is reloaded",)
        if not logged and "authorizerd.workers" in self.settings:
            texts += ("every worker has the settings in force",)
        before = self.log_file.read_text()

        def are_logged() -> bool:
            now = self.log_file.read_text()
            return all(now.count(text) > before.count(text) for text in texts)

        write_config(self.folder, self.log_dir, self.settings)
        self.process.send_signal(signal.SIGHUP)
        wait_until(are_logged, f"{texts} are logged")


_PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT", "SECURE": "SSL", "CERTIFIED": "SSL", "LOGIN": "SASL_SSL",
}  # fmt: skip
"""The listeners of the daemon with a log of its own. CERTIFIED requires a certificate."""


class OwnLogSite(Site):
    """A daemon with a log of its own in tiny segments, two workers, TLS, tokens and an audit.

    Attributes:
        authority: the CA of its certificate.
        tokens: the lines of the tokens file.
        spare_token: the last one of ``spare``, empty before the first.
        audit_file: where the audit goes, on a disk of its own that fills up.
        refusals: how many changes were refused then.
    """

    owns_log = True

    def __init__(self, folder: Path, *, ballast: int, log_disk: Disk, audit_disk: Disk) -> None:
        self.refusals = 0
        self.authority = Authority(folder)
        self.tokens_file = folder / "tokens"
        self.audit_disk = audit_disk
        self.audit_file = audit_disk.folder / "audit.log"
        token, line = new_token("soak", "User:soak", os.urandom(SECRET_BYTES))
        self.tokens = {"soak": line}
        self.spare_token = ""
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
            "own", folder, settings, log_dir=new_log(log_disk.folder), disk=log_disk,
            context=self.authority.client_context(), token=token,
        )  # fmt: skip
        with closing(self.kafka()) as admin:
            acls = make_ballast(ballast)
            for begin in range(0, ballast, _CREATED_AT_ONCE):
                results = admin.create(*acls[begin : begin + _CREATED_AT_ONCE])
                assert not any(results), results
            _create_users(admin)
        self.ballast = ballast
        with closing(self.stream()) as connection:
            self.judge = History(frozenset(), connection.greeting.offset)

    def why_refused(self, error: ApiError | None, *, was_full: bool = False) -> str | None:
        if error is None or not (was_full or self.is_full):
            return None
        segments = re.escape(f"{self.log_dir}/__cluster_metadata-0/")
        text = (
            r"the log could not be written: \[Errno 28\] No space left on device: "
            rf"'{segments}\d{{20}}\.log'; nothing was changed, try again"
        )
        is_expected = error.code == ErrorCode.BROKER_NOT_AVAILABLE
        return (
            "the disk is full" if is_expected and re.fullmatch(text, str(error.message)) else None
        )

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
        salted = salt_password(mechanism, PASSWORDS[each.user], SALT, ITERATIONS)
        answer = alter_credential(admin, each.user, mechanism, ITERATIONS, salted)
        assert answer[0] == 0, answer


def alter_credential(
    connection: KafkaConnection,
    user: str,
    mechanism: ScramMechanism,
    iterations: int,
    salted: bytes,
) -> tuple[int, str | None]:
    """Send a credential of SCRAM; return the code and the text of the error."""
    upserted = SimpleNamespace(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )
    api_key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    [result] = connection.ask(api_key, 0, deletions=(), upsertions=[upserted]).results
    return result.error_code, result.error_message


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
        self.judge = History(
            frozenset(), offset, newest_offset=self._committed_offset, is_one_process=True
        )

    def why_refused(self, error: ApiError | None, *, was_full: bool = False) -> str | None:
        return None if error is None or error.code not in UNDELIVERED else error.name

    def new_id(self) -> bytes:
        self._next_id += 1
        return self._next_id.to_bytes(16, "big")

    def _committed_offset(self) -> int:
        return self.quorum.do(lambda each: each.leader.high_watermark - 1)
