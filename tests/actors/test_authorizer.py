"""The context of a request to an authorizer."""

from __future__ import annotations

import msgspec
import pytest

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.actors.authorizer import RequestContext

CONTEXT = RequestContext(principal="User:a", host="10.0.0.1", request_name="Test")


@pytest.mark.parametrize("host", [None, "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0"])
def test_a_context_accepts_hosts_as_kafka_compares_them(host: str | None) -> None:
    """None is an unknown host."""
    assert msgspec.structs.replace(CONTEXT, host=host).host == host


@pytest.mark.parametrize(
    "host", ["", "*", "localhost", "::1", "::ffff:10.0.0.1", "2001:db8:0:0:0:0:0:9%x", "1" * 999]
)
def test_a_context_with_another_host_is_rejected(host: str) -> None:
    """A DENY would not match a host that is spelled in another way."""
    with pytest.raises(InvalidQuestionError, match="invalid host") as error:
        msgspec.structs.replace(CONTEXT, host=host)
    assert len(str(error.value)) < 250
