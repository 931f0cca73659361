"""The image: its Containerfile, how it prepares the configuration, and its probe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from authorizerd.container.prepare import main
from authorizerd.container.probe import main as probe
from tests.ops.container.servers import SECRET, answering, closed_address, serving
from tools.release.source import read_epoch

ROOT = Path(__file__).parents[3]
CONTAINER = ROOT / "ops" / "container"
IMAGE = os.environ.get("AUTHORIZERD_TEST_IMAGE")


def instructions() -> list[tuple[str, str]]:
    """Return the Containerfile's instructions, each with its argument on one line."""
    text = re.sub(r"^#.*\n", "", (CONTAINER / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    parts = [line.strip().partition(" ") for line in lines if line.strip()]
    return [(name, argument.strip()) for name, _, argument in parts]


def arguments_of(name: str) -> list[str]:
    return [argument for other, argument in instructions() if other == name]


def test_both_stages_use_one_base_pinned_by_version_and_digest() -> None:
    base = arguments_of("ARG")[0]
    assert re.fullmatch(
        r"BASE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base
    )
    assert arguments_of("FROM") == ["${BASE} AS build", "${BASE}"]


def test_daemon_is_process_1_without_root() -> None:
    """Only exec forms are used: a shell would not pass the signals on."""
    assert re.fullmatch(r"[1-9]\d{4}:[1-9]\d{4}", arguments_of("USER")[-1])
    assert json.loads(arguments_of("ENTRYPOINT")[-1])[0].startswith("/")
    assert json.loads(arguments_of("CMD")[-1])[0] == "serve"
    assert arguments_of("STOPSIGNAL") == ["SIGTERM"]
    for command in arguments_of("RUN"):
        assert isinstance(json.loads(command), list)
    _, _, check = arguments_of("HEALTHCHECK")[-1].partition("CMD ")
    assert json.loads(check)[-2:] == ["authorizerd.container.probe", "/readyz"]


def test_only_locked_wheels_are_installed() -> None:
    installed = [json.loads(run) for run in arguments_of("RUN") if '"install"' in run]
    locked, ours = installed
    assert {"--require-hashes", "--only-binary", "requirements.lock"} <= set(locked)
    assert {"--no-deps", "--no-index"} <= set(ours)
    assert "index-url" not in (CONTAINER / "Containerfile").read_text()


def test_every_package_is_copied_and_not_ignored() -> None:
    links = (path for path in (ROOT / "src/authorizerd").iterdir() if path.is_symlink())
    packages = {link.readlink().parts[2] for link in links}
    copies = (copy for copy in arguments_of("COPY") if "--from" not in copy)
    copied = {source for copy in copies for source in copy.split()[:-1]}
    assert packages <= copied
    assert all((ROOT / source).exists() for source in copied)
    lines = (CONTAINER / "Containerfile.dockerignore").read_text().splitlines()
    assert copied == {line[1:] for line in lines if line.startswith("!")}


def test_image_gets_the_version_and_its_date() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    printed = subprocess.run(
        [CONTAINER / "build.sh", "--pull-never"],
        env={**os.environ, "BUILDAH": "echo", "SYFT": "no-such-program"}, stdout=subprocess.PIPE,
        text=True, check=True,
    ).stdout  # fmt: skip
    assert f" --tag localhost/authorizerd:{version} " in printed
    if ".dev" not in version:
        epoch = read_epoch((ROOT / "CHANGELOG.md").read_text(), version)
        assert f" --timestamp {epoch} " in printed
    assert f" --build-arg VERSION={version} " in printed
    assert re.search(r" --build-arg REVISION=([0-9a-f]{40}|unknown) ", printed)
    assert printed.endswith(" --pull-never .\n")


@pytest.mark.skipif(
    IMAGE is None or os.geteuid() != 0,
    reason="AUTHORIZERD_TEST_IMAGE does not name an image of buildah, or the user is not root",
)
def test_image_passes_the_smoke_test() -> None:
    assert IMAGE is not None
    smoke = subprocess.run(
        [CONTAINER / "smoke.sh", IMAGE], capture_output=True, text=True, check=False, timeout=120
    )
    assert smoke.returncode == 0, smoke.stderr


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


@pytest.mark.parametrize(("variable", "key"), [
    ("KAFKA_NODE_ID", "node.id"),
    ("KAFKA_LISTENER_NAME_A_PLAIN_SASL_JAAS_CONFIG", "listener.name.a.plain.sasl.jaas.config"),
    ("KAFKA_LISTENER_NAME_A_SCRAM___SHA___512_X__Y", "listener.name.a.scram-sha-512.x_y"),
    ("KAFKA_CONFIG_PROVIDERS", "config.providers"),
    ("KAFKA_SERVICE_HOST", None),
    ("KAFKA_HEAP_OPTS", None),
])  # fmt: skip
def test_variable_of_kafkas_images_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    variable: str, key: str | None,
) -> None:  # fmt: skip
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


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_only_status_200_is_success_and_the_answer_is_printed(
    status: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(answering(status, b"the answer")) as address:
        assert probe(["/readyz", "--admin", address]) == code
    assert capsys.readouterr().out == "the answer\n"


def test_closed_port_is_failure(capsys: pytest.CaptureFixture[str]) -> None:
    address = closed_address()
    assert probe(["/healthz", "--admin", address]) == 1
    assert f"{address} does not answer" in capsys.readouterr().out
