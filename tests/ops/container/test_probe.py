from __future__ import annotations

import pytest

from authorizerd.container.probe import main
from tests.ops.container.servers import answering, closed_address, serving


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_only_status_200_is_success_and_the_answer_is_printed(
    status: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(answering(status, b"the answer")) as address:
        assert main(["/readyz", "--admin", address]) == code
    assert capsys.readouterr().out == "the answer\n"


def test_closed_port_is_failure(capsys: pytest.CaptureFixture[str]) -> None:
    address = closed_address()
    assert main(["/healthz", "--admin", address]) == 1
    assert f"{address} does not answer" in capsys.readouterr().out
