"""The calls of a function that a test watches."""

from types import ModuleType
from typing import Any

import pytest


def record_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """Return a list to which the first argument of each call of a module's function is added."""
    original, calls = getattr(module, name), []

    def call(first: object, *rest: object) -> Any:  # noqa: ANN401 - what the function returns
        calls.append(first)
        return original(first, *rest)

    monkeypatch.setattr(module, name, call)
    return calls
