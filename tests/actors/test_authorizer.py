"""The interface of authorizers, and the context of a request to one."""

from abc import ABC

import msgspec
import pytest

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer

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


INTERFACES: tuple[type[ABC], ...] = (Authorizer, DaemonAuthorizer)


@pytest.mark.parametrize(
    ("interface", "method"),
    [(each, method) for each in INTERFACES for method in sorted(each.__abstractmethods__)],
)
def test_class_that_lacks_a_method_is_not_instantiated(interface: type[ABC], method: str) -> None:
    methods = dict.fromkeys(interface.__abstractmethods__ - {method}, lambda *arguments: None)
    with pytest.raises(TypeError, match=f"with abstract method {method}$"):
        type("Incomplete", (interface,), methods)()


def test_the_required_methods_are_those_without_a_default() -> None:
    required = {"authorize", "create_acls", "delete_acls", "acls"}
    assert Authorizer.__abstractmethods__ == required
    assert DaemonAuthorizer.__abstractmethods__ == required | {"decide", "refusal"}
