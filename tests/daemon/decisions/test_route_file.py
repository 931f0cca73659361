"""The file of routes: how it is read, and when its routes apply."""

import os
from pathlib import Path

import pytest

from authorizerd.config.errors import ConfigurationError
from authorizerd.daemon.decisions.route_file import FILE_BYTES_MAX, RouteFile
from authorizerd.daemon.errors import StartError

ROUTES = "routes:\n  - GET /x -> READ TOPIC x\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "routes.yaml"
    file.write_text(ROUTES)
    return file


def test_routes_apply_when_the_reload_is_applied(path: Path) -> None:
    routes = RouteFile(str(path))
    apply = routes.prepare_reload()
    assert (routes.newest, routes.text) == (None, None)
    apply()
    assert routes.text == ROUTES
    path.write_text(f"gateway: envoy\n{ROUTES}")
    apply = routes.prepare_reload()
    assert routes.text == ROUTES
    apply()
    assert routes.newest is not None
    assert routes.newest.gateway.name == "envoy"


def test_without_a_file_there_are_no_routes() -> None:
    routes = RouteFile(None)
    assert not routes.is_configured
    routes.prepare_reload()()
    routes.parse(ROUTES)()
    assert (routes.newest, routes.text) == (None, None)


def test_worker_without_a_text_keeps_its_routes(path: Path) -> None:
    routes = RouteFile(str(path))
    routes.parse(ROUTES)()
    routes.parse(None)()
    assert routes.text == ROUTES


@pytest.mark.parametrize(("data", "mode", "reason"), [
    (b"routes: []", 0o644, "routes.yaml:1: expected 'routes'"),
    (b"a: b\n\xff", 0o644, "routes.yaml:2: expected UTF-8 text"),
    (ROUTES.encode(), 0o646, "writable by all users"),
    (b"#" * (FILE_BYTES_MAX + 1), 0o644, f"expected at most {FILE_BYTES_MAX} bytes"),
    (None, 0o644, "authorizerd.routes.file: .*No such file"),
])  # fmt: skip
def test_unusable_file_changes_nothing(
    path: Path, data: bytes | None, mode: int, reason: str
) -> None:
    routes = RouteFile(str(path))
    routes.prepare_reload()()
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
        os.chmod(path, mode)
    with pytest.raises((ConfigurationError, StartError), match=reason):
        routes.prepare_reload()
    assert routes.text == ROUTES
