"""The interfaces of authorizers: a class that lacks a method cannot be used."""

from __future__ import annotations

from abc import ABC

import pytest

from authorizerd.actors.authorizer import Authorizer
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer

INTERFACES: tuple[type[ABC], ...] = (Authorizer, DaemonAuthorizer)


@pytest.mark.parametrize(
    ("interface", "method"),
    [(each, method) for each in INTERFACES for method in sorted(each.__abstractmethods__)],
)
def test_a_class_that_lacks_a_method_cannot_be_instantiated(
    interface: type[ABC], method: str
) -> None:
    methods = dict.fromkeys(interface.__abstractmethods__ - {method}, lambda *arguments: None)
    with pytest.raises(TypeError, match=f"with abstract method {method}$"):
        type("Incomplete", (interface,), methods)()


def test_the_required_methods_are_those_without_a_default() -> None:
    required = {"authorize", "create_acls", "delete_acls", "acls"}
    assert Authorizer.__abstractmethods__ == required
    assert DaemonAuthorizer.__abstractmethods__ == required | {"decide", "refusal"}
