"""Text of clients in the log, the audit and the answers of a real daemon cannot forge a line."""

import json
import re
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from urllib.parse import quote, urlencode

import pytest

from authorizerd.config.jaas import PLAIN_LOGIN_MODULE
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from tests.support.acls import acl
from tests.support.certificates import Authority
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    ask,
    new_log,
    running,
    wait_until,
    write_config,
)
from tests.support.envelopes import envelope
from tests.support.kafka_connection import KafkaConnection
from tests.support.kafka_principals import encode_principal
from tests.support.requests import evaluation
from tests.support.stream_connection import StreamConnection

MARK: Final = "FORGED"
HOSTILE: Final = (
    f"a\n2026-01-01 00:00:00,000 ERROR authorizerd: {MARK}\r\n"
    f"[2026-01-01 00:00:00,000] INFO Principal = {MARK}\x1b[2J\x07"
    "\x7f\x85\x9b\u2028\u202e\u2066\ufeff"
)
"""Line feeds, a beginning of a line of each log, and what terminals and bidirectional text obey."""

LOG_LINE: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) \S+: "
)
AUDIT_LINE: Final = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (INFO|DEBUG) (Principal = |Changed ACLs: )"
)
HEADER: Final = struct.Struct(">hhih")


def ask_authzen(daemon: DaemonProcess) -> Iterator[bytes]:
    """Yield the answers to questions and searches that contain the text in every field."""
    question = evaluation(HOSTILE, HOSTILE, topic=HOSTILE)
    context = {"context": {"host": HOSTILE, "as_of": HOSTILE}}
    for document in (
        evaluation(HOSTILE, topic=HOSTILE),
        question,
        evaluation(HOSTILE, topic=HOSTILE) | context,
        {**question, "subject": {"type": HOSTILE, "id": "a"}},
        {**question, "resource": {"type": HOSTILE, "id": "a"}},
        {HOSTILE: HOSTILE, **evaluation(HOSTILE)},
        evaluation("a", topic="t") | {"page": {"token": HOSTILE}},
    ):
        for path in (
            "/access/v1/evaluation",
            "/access/v1/search/subject",
            "/access/v1/search/resource",
            "/v1/explain",
            "/v1/history",
            "/v1/data/kafka",
        ):
            yield daemon.evaluate(document, path=path).body


def ask_opa(daemon: DaemonProcess) -> Iterator[bytes]:
    """Yield the answers to a broker's questions."""
    for address in ("/10.0.0.1", HOSTILE):
        principal = {"principalType": "User", "name": HOSTILE}
        pattern = {"resourceType": "TOPIC", "name": HOSTILE, "patternType": "LITERAL"}
        asked = {
            "requestContext": {"clientAddress": address, "principal": principal},
            "action": {"resourcePattern": pattern, "operation": "READ"},
        }
        yield daemon.evaluate({"input": asked}, path=f"/v1/data/{quote(HOSTILE)}").body


def send_headers(daemon: DaemonProcess) -> Iterator[bytes]:
    """Yield the answers to requests with the text in the head, as far as HTTP can express it."""
    shown = "".join(each for each in HOSTILE if each not in "\r\n\0").encode()
    for name in (b"User-Agent", b"X-Request-ID", b"Authorization", b"X-Forwarded-For", b"Host"):
        for value in (shown, b"Bearer " + shown):
            yield send_raw(daemon, b"GET /health HTTP/1.1\r\n" + name + b": " + value)
    for path in (
        quote(HOSTILE),
        f"console/{quote(HOSTILE)}",
        f"v1/acls?{urlencode({'a': HOSTILE})}",
    ):
        for connection in (daemon.decision, daemon.admin):
            yield ask(connection, "GET", f"/{path}").body
    yield send_raw(daemon, b"GET /" + shown + b" HTTP/1.1\r\nHost: localhost")
    yield send_raw(daemon, shown + b" / HTTP/1.1\r\nHost: localhost")


def send_raw(daemon: DaemonProcess, head: bytes) -> bytes:
    """Send a head as it is; return the answer's body, or nothing if it is not HTTP."""
    connection = HTTPConnection(daemon.ready["decision_http"], timeout=SECONDS_MAX)
    connection.connect()
    connection.sock.sendall(head + b"\r\n\r\n")
    try:
        response = connection.response_class(connection.sock, method="GET")
        with suppress(HTTPException):
            response.begin()
            return response.read()
        return b""
    finally:
        connection.close()


def use_stream(daemon: DaemonProcess) -> None:
    stream = StreamConnection(daemon.ready["decision_stream"])
    for principal, host, name in (
        (f"User:{HOSTILE}", None, HOSTILE),
        (HOSTILE, HOSTILE, HOSTILE),
    ):
        stream.ask(
            (principal, host, "READ", "TOPIC", name), (principal, host, HOSTILE, "TOPIC", "t")
        )
    stream.close()


def use_kafka(daemon: DaemonProcess) -> None:
    """Send the text in client ids, names, configs, mechanisms, user names and Envelopes."""
    listeners = daemon.ready["listeners"]
    connection = KafkaConnection(listeners["OPEN"], client_id=HOSTILE)
    errors = connection.create(
        acl(f"User:{HOSTILE}", topic=HOSTILE, host=HOSTILE),
        acl(HOSTILE, topic=HOSTILE),
        acl("User:a", topic=HOSTILE),
    )
    assert errors[0] is None
    connection.metadata(HOSTILE)
    connection.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            SimpleNamespace(
                resource_type=4,
                resource_name=number,
                configs=[SimpleNamespace(name=name, config_operation=0, value=HOSTILE)],
            )
            for number, name in (("1", "max.connections"), ("1", HOSTILE), (HOSTILE, HOSTILE))
        ],
        validate_only=False,
    )
    connection.close()
    for mechanism, user in (("PLAIN", HOSTILE), (HOSTILE, "a"), ("SCRAM-SHA-256", HOSTILE)):
        connection = KafkaConnection(listeners["SASL"], client_id=HOSTILE)
        chosen = connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
        if not chosen.error_code:
            scram = f"n,,n={user},r=abc"
            token = f"\0{user}\0wrong" if mechanism == "PLAIN" else scram
            connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token.encode())
        connection.close()
    connection = KafkaConnection(listeners["CONTROLLER"], client_id=HOSTILE)
    for body in (
        envelope(principal=encode_principal(f"User:{HOSTILE}")),
        envelope(principal=encode_principal("User:a").replace(b"User", b"U:\n\x1b")),
        envelope(HEADER.pack(3, 9, 1, 2) + b"\n\x1b"),
    ):
        connection.ask_raw(ApiKey.ENVELOPE, 1, body)
    connection.close()
    text = HOSTILE.encode()
    for sent in (frame(text), frame(HEADER.pack(29, 99, 1, len(text)), text), text):
        connection = KafkaConnection(listeners["OPEN"])
        connection.socket.sendall(sent)
        connection.close()


def use_certificate(daemon: DaemonProcess, authority: Authority) -> None:
    """Ask with a certificate whose common name is the text."""
    keystore = authority.issue("hostile", common_name=HOSTILE[:64])
    address, context = daemon.ready["listeners"]["MTLS"], authority.client_context(keystore)
    connection = KafkaConnection(address, context=context, client_id=HOSTILE)
    connection.describe()
    connection.close()
    host, _, port = address.rpartition(":")
    with suppress(OSError, HTTPException):
        https = HTTPSConnection(host, int(port), context=context, timeout=SECONDS_MAX)
        https.request("GET", f"/{quote(HOSTILE)}")
        https.getresponse()
    https.close()


@pytest.mark.parametrize("form", ["kafka", "json"])
def test_no_client_forges_a_line(tmp_path: Path, form: str) -> None:
    """Each line of the log and of the audit is one event, and each error is one line of text."""
    authority = Authority(tmp_path)
    audit = tmp_path / "audit.log"
    config = {
        "listeners": ",".join(
            f"{each}://127.0.0.1:0" for each in ("OPEN", "MTLS", "SASL", "CONTROLLER")
        ),
        "listener.security.protocol.map": (
            "OPEN:PLAINTEXT,MTLS:SSL,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'{PLAIN_LOGIN_MODULE} required user_root="r";'
        ),
        **authority.server_keys(
            "listener.name.mtls.",
            truststore_location=str(authority.ca_file),
            client_auth="required",
        ),
        "connection.failed.authentication.delay.ms": "0",
        "super.users": "User:ANONYMOUS",
        "authorizerd.console": "true",
        "authorizerd.audit.log": str(audit),
        "authorizerd.audit.level": "DEBUG",
        "authorizerd.audit.format": form,
        "authorizerd.log.level": "DEBUG",
        "an.unknown.key\\u202e\\n": "1",
    }
    log_dir = new_log(tmp_path)
    with running(tmp_path, log_dir, config) as daemon:
        texts = [*ask_authzen(daemon), *ask_opa(daemon), *send_headers(daemon)]
        use_stream(daemon)
        use_kafka(daemon)
        use_certificate(daemon, authority)
        write_config(tmp_path, log_dir, config | {"max.connections": "1\\n\\u202e" + MARK})
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.metric("authorizerd_reload_failing") == 1, "the reload fails")
        code, log = daemon.stop()
    assert code == 0
    assert MARK in log
    for line in log.removesuffix("\n").split("\n"):
        assert line.isprintable(), line
        assert LOG_LINE.match(line), line
        assert not line.startswith("2026-01-01"), line
    lines = audit.read_text().removesuffix("\n").split("\n")
    assert sum(MARK in line for line in lines) > 10
    for line in lines:
        assert line.isprintable(), line
        if form == "json":
            json.loads(line)
        else:
            assert AUDIT_LINE.match(line), line
            assert not line.startswith("[2026-01-01"), line
    assert len(texts) > 50
    for text in (each.decode() for each in texts):
        if not text.startswith(("{", "<!DOCTYPE html>")):
            assert text.count("\n") == text.endswith("\n"), text
            assert text.removesuffix("\n").isprintable(), text
