from __future__ import annotations

import socket

import pytest

from authorizerd.replay.submit import connect
from authorizerd.replay.submit.connect import check_connect
from authorizerd.replay.submit.errors import SubmissionError

pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")


def test_server_is_found_at_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_connect(f"sc://127.0.0.1:{server.getsockname()[1]}/;token=a")


@pytest.mark.parametrize("port", ["closed", "99999"])
def test_unreachable_server_is_named_without_its_token(port: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"sc://127.0.0.1:{taken.getsockname()[1] if port == 'closed' else port}"
        with pytest.raises(SubmissionError, match=f"--remote: {url}: cannot connect: ") as raised:
            check_connect(f"{url}/;token=hunter2")
    assert "hunter2" not in str(raised.value)


def test_invalid_address_is_named_without_its_token() -> None:
    with pytest.raises(SubmissionError, match=r"--remote: sc://\[a: cannot connect: ") as raised:
        check_connect("sc://[a/;token=hunter2")
    assert "hunter2" not in str(raised.value)


def test_missing_client_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "find_spec", lambda _: None)
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay-connect\]"):
        check_connect("sc://host")
