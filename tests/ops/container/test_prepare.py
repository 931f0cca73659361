from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.container.prepare import main
from tests.ops.container.servers import SECRET


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """A configuration in two files; the first does not end with a line break."""
    files = tmp_path / "server.properties.in", tmp_path / "listener.properties"
    files[0].write_text(
        f"node.id=7\nlog.dirs={tmp_path}/log\nlisteners=SASL_PLAINTEXT://127.0.0.1:0"
    )
    files[1].write_text(SECRET)
    return [str(file) for file in files]


def test_parts_are_joined_privately_and_only_a_new_log_is_formatted(
    tmp_path: Path, parts: list[str]
) -> None:
    config = tmp_path / "server.properties"
    arguments = ["--config", str(config), "--cluster-id", "4L6g3nShT-eMCtK--X86sw", *parts]
    assert main(arguments) == 0
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.read_text().splitlines()[-2:] == [
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        SECRET,
    ]
    properties = tmp_path / "log" / "meta.properties"
    before = properties.read_bytes()
    assert b"cluster.id=4L6g3nShT-eMCtK--X86sw" in before
    assert main(["--config", str(config), *parts]) == 0
    assert properties.read_bytes() == before


def test_copy_of_a_followed_cluster_is_not_formatted(tmp_path: Path, parts: list[str]) -> None:
    follow = tmp_path / "follow.properties"
    follow.write_text(
        "controller.quorum.bootstrap.servers=c:1\ncontroller.listener.names=PLAINTEXT\n"
    )
    assert main(["--config", str(tmp_path / "server.properties"), *parts, str(follow)]) == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG", "listener.name.a.plain.sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_A_SCRAM___SHA___512_X__Y", "listener.name.a.scram-sha-512.x_y"),
        ("KAFKA_CONFIG_PROVIDERS", "config.providers"),
        ("KAFKA_SERVICE_HOST", None),
        ("KAFKA_HEAP_OPTS", None),
    ],
)
def test_variable_of_kafkas_images_is_refused(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    key: str | None,
) -> None:
    monkeypatch.setenv(variable, "hidden")
    monkeypatch.setenv("KAFKA_SUPER_USERS", "hidden")
    part = str(tmp_path / "missing.properties")
    assert main(["--config", str(tmp_path / "made"), part]) == 1
    said = capfd.readouterr().err
    assert (f"{variable}: write {key}=… into {part}" in said) == (key is not None)
    assert "KAFKA_SUPER_USERS: write super.users=…" in said
    assert "hidden" not in said


def test_missing_part_is_named_and_nothing_is_written(
    tmp_path: Path, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.properties"
    assert main(["--config", str(config), *parts, str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert not config.exists()
    assert not (tmp_path / "log").exists()


def test_invalid_configuration_does_not_replace_the_old_one(
    tmp_path: Path, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("before")
    with Path(parts[1]).open("a") as part:
        part.write("\nauthorizerd.workers=many\nqueued.max.requests=0\n")
    assert main(["--config", str(config), *parts]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in lines] == ["authorizerd.workers", "queued.max.requests"]
    assert config.read_text() == "before"
