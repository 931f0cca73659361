"""The warnings of ``authorizerd serve``. (tests/end_to_end runs it.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.cli.serve import warn_of
from authorizerd.config.configuration import parse

FOLLOWING = """\
log.dirs=/d
controller.quorum.bootstrap.servers=c:1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:SSL,PLAINTEXT:PLAINTEXT
listener.name.controller.ssl.keystore.location={path}
listener.name.controller.ssl.keystore.type=PEM
"""
SERVING = """\
node.id=1
log.dirs=/d
listeners=SSL://127.0.0.1:0
ssl.keystore.location={path}
ssl.keystore.type=PEM
authorizerd.decision.http=https://127.0.0.1:0
authorizerd.http.ssl.keystore.location={path}
authorizerd.http.ssl.keystore.type=PEM
"""


@pytest.mark.parametrize("text", [FOLLOWING, SERVING], ids=["following", "serving"])
@pytest.mark.parametrize(("mode", "warnings"), [(0o644, 1), (0o640, 0), (0o602, 0)])
def test_keystore_that_everybody_may_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, mode: int, warnings: int
) -> None:
    """Once, even if several ports use it."""
    keystore = tmp_path / "keystore.pem"
    keystore.touch()
    keystore.chmod(mode)
    configuration = parse(text.format(path=keystore), source="server.properties")
    warn_of(configuration)
    assert caplog.text.count(f"{keystore}: every user may read the private key") == warnings


def test_settings_that_are_probably_not_meant_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The daemon uses them as they are."""
    text = "node.id=1\nlog.dirs=/d\nsuper.users=User:a,User:b\nlistener=x\n"
    warn_of(parse(text, source="server.properties"))
    assert [record.getMessage() for record in caplog.records] == [
        "unsupported keys are ignored: listener (did you mean listeners?)",
        "super.users: 'User:a,User:b' is one principal: separate entries by semicolons",
    ]


def test_tokens_in_the_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    text = "node.id=1\nlog.dirs=/log\nauthorizerd.tokens.file=/tokens\n"
    for address, is_warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        caplog.clear()
        warn_of(parse(f"{text}authorizerd.decision.http=http://{address}:0", source="test"))
        assert ("tokens travel in the clear" in caplog.text) is is_warned
