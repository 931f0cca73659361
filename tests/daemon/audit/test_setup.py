"""The audit by configuration: its outputs, its secret, and required audits."""

import json
import logging
import os
import re
from pathlib import Path

import pytest
import trio

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import DEFAULT_DENY
from authorizerd.acl.model import Question
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.audit.setup import (
    SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
    Audit,
    open_audit,
    read_secret,
)
from authorizerd.daemon.errors import StartError
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH
from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.decision_place import Place, authzen_handler, opa_answer
from tests.daemon.opa_requests import post
from tests.daemon.stream_service import connected
from tests.support.acls import acl
from tests.support.answers import answer_of
from tests.support.requests import evaluation, http_request

EVENT = AuditEvent(
    0.0, AuditLevel.INFO, Question("User:alice", "h", 3, 2, "t"), DEFAULT_DENY, "Test", 0
)


def configuration(*lines: str) -> Configuration:
    return parse("\n".join(("node.id=1", "log.dirs=/log", *lines)), source="server.properties")


def opened(target: str | Path, *lines: str) -> Audit:
    audit = open_audit(configuration(f"authorizerd.audit.log={target}", *lines))
    assert audit is not None
    return audit


def keep_secret(path: Path, secret: bytes, mode: int = 0o640) -> str:
    path.write_bytes(secret)
    path.chmod(mode)
    return str(path)


async def written(audit: Audit, *events: AuditEvent) -> None:
    """Write events, and end the audit."""
    for event in events:
        audit.log.record(event)
    audit.log.close()
    with trio.fail_after(30):
        await audit.log.run()
    audit.close()


def test_nothing_is_audited_by_default() -> None:
    assert open_audit(configuration()) is None


async def test_lines_go_to_a_standard_stream(capfd: pytest.CaptureFixture[str]) -> None:
    """It stays open, because the daemon's own log may go there as well."""
    for target in ("stdout", "stderr", "stdout"):
        await written(opened(target), EVENT)
    said = capfd.readouterr()
    assert said.out.count("Principal = User:alice is Denied") == 2
    assert said.err.count("Principal = User:alice is Denied") == 1


async def test_lines_go_to_a_named_pipe(tmp_path: Path) -> None:
    """Without a reader, the start fails instead of blocking."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(StartError, match=r"authorizerd.audit.log: .*pipe: No such device"):
        opened(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    await written(opened(path), EVENT)
    assert os.read(reader, 4096).count(b"\n") == 1
    os.close(reader)


def test_an_unusable_target_is_a_start_error(tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "none" / "audit.log"):
        with pytest.raises(StartError, match=f"authorizerd.audit.log: {re.escape(str(target))}: "):
            opened(target)


async def test_a_full_disk_is_reported_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One target is a device that is always full, the other a folder that disappears for a time."""
    await written(opened("/dev/full"), EVENT)
    failure, loss = (record.getMessage() for record in caplog.records)
    assert failure.startswith("audit log /dev/full: lines cannot be written now: ")
    assert failure.endswith("No space left on device")
    assert loss == "audit log /dev/full: lines lost at the end: 1"
    caplog.clear()
    folder, path = tmp_path / "logs", tmp_path / "logs" / "audit.log"
    folder.mkdir()
    audit = opened(path)
    folder.rename(tmp_path / "gone")
    async with trio.open_nursery() as nursery:
        await nursery.start(audit.log.run)
        audit.log.record(EVENT)
        with trio.fail_after(30):
            while not audit.log.statistics.failing:
                await trio.lowlevel.checkpoint()
        folder.mkdir()
        audit.log.close()
    audit.close()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert caplog.records[1].getMessage() == (
        f"audit log {path}: lines are written again; lost meanwhile: 0"
    )
    assert path.read_bytes().count(b"\n") == 1


async def test_secret_is_reloaded_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new secret applies from the next line. An invalid one changes nothing."""
    caplog.set_level(logging.DEBUG)
    path, secret = tmp_path / "audit.log", tmp_path / "secret"
    key = f"authorizerd.audit.mask.secret.file={keep_secret(secret, b'first secret 0123')}"
    audit = opened(
        path, key, "authorizerd.audit.mask.principal=hash", "authorizerd.audit.format=json"
    )

    async def write_one() -> None:
        done = audit.log.statistics.written
        audit.log.record(EVENT)
        with trio.fail_after(30):
            while audit.log.statistics.written == done:
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        await nursery.start(audit.log.run)
        await write_one()
        keep_secret(secret, b"short")
        with pytest.raises(StartError) as refusal:
            audit.prepare_reload()
        await write_one()
        keep_secret(secret, b"another secret 0123")
        apply = audit.prepare_reload()
        await write_one()
        apply()
        path.rename(tmp_path / "audit.log.1")
        await write_one()
        audit.log.close()
    audit.close()
    lines = (tmp_path / "audit.log.1").read_bytes() + path.read_bytes()
    principals = [json.loads(line)["principal"] for line in lines.splitlines()]
    assert [principals.index(each) for each in principals] == [0, 0, 0, 3]
    for text in (str(refusal.value), caplog.text, repr(audit.__dict__), lines.decode()):
        assert "secret 0123" not in text
        assert "short" not in text.replace("too short", "")


@pytest.mark.parametrize(
    ("secret", "mode", "reason"),
    [
        (bytes(SECRET_BYTES_MIN - 1) + b"\n", 0o600, "expected a secret of 16 to 4096 bytes"),
        (bytes(SECRET_BYTES_MAX + 1), 0o600, "expected a secret of 16 to 4096 bytes"),
        (bytes(SECRET_BYTES_MIN), 0o604, "it is accessible to all users"),
        (bytes(SECRET_BYTES_MIN), 0o602, "it is accessible to all users"),
    ],
)
def test_invalid_secret_is_refused(tmp_path: Path, secret: bytes, mode: int, reason: str) -> None:
    path = keep_secret(tmp_path / "secret", secret, mode)
    with pytest.raises(StartError, match=f"authorizerd.audit.mask.secret.file: .*: {reason}"):
        read_secret(path)


def test_a_secret_may_end_with_a_line_feed(tmp_path: Path) -> None:
    """Editors add one."""
    path = tmp_path / "secret"
    assert read_secret(keep_secret(path, bytes(SECRET_BYTES_MIN) + b"\n")) == bytes(16)
    assert read_secret(keep_secret(path, bytes(SECRET_BYTES_MAX))) == bytes(4096)


def test_a_secret_must_be_in_a_regular_file(tmp_path: Path) -> None:
    """Opening a pipe would block."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        with pytest.raises(StartError, match=r"mask\.secret\.file: "):
            read_secret(str(path))


async def test_every_surface_refuses_while_a_required_audit_fails(nursery: trio.Nursery) -> None:
    """They refuse as before loading: plain text over HTTP, and no decision on the stream."""
    place = Place(None, acl("User:alice", "READ", topic="orders"))
    request = http_request(EVALUATION_PATH, evaluation())
    handler = authzen_handler(place)
    _, client = await connected(nursery, place)
    question = ("User:alice", None, "READ", "TOPIC", "orders")
    assert (await answer_of(handler(request))).status == 200
    assert (await client.ask([question])).decisions == b"\x01"
    place.audit_log.is_refusing = True
    responses: list[Response] = [await answer_of(handler(request)), await opa_answer(place, post())]
    for response in responses:
        assert (response.status, response.content_type) == (503, "text/plain; charset=utf-8")
        assert b"the audit log is required, but cannot be written" in response.body
    refused = await client.ask([question])
    assert (refused.error_code, refused.decisions) == (ErrorCode.AUTHORIZER_NOT_READY, b"")
    place.audit_log.is_refusing = False
    assert (await answer_of(handler(request))).status == 200
