"""The endpoint of the decision stream of a real daemon."""

import socket
from pathlib import Path

import pytest

from tests.support.daemon_process import new_log, run, running, write_config


def test_failed_start_leaves_no_unix_socket(tmp_path: Path) -> None:
    """The start fails because another port of the daemon is in use."""
    path = tmp_path / "stream"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {
            "authorizerd.decision.stream": f"unix:{path}",
            "authorizerd.decision.http": f"http://127.0.0.1:{taken.getsockname()[1]}",
        }
        done = run("serve", "--config", write_config(tmp_path, new_log(tmp_path), config))
    assert (done.returncode, "Address already in use" in done.stderr) == (1, True)
    assert not path.exists()


def test_disabled_stream_has_no_address_and_no_metrics(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path), {"authorizerd.decision.stream": ""}) as daemon:
        assert daemon.ready["decision_stream"] is None
        with pytest.raises(AssertionError, match="no metric"):
            daemon.metric('authorizerd_stream_connections{listener="decision_stream"}')
