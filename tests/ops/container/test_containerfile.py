from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

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
        env={**os.environ, "BUILDAH": "echo", "SYFT": "no-such-program"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
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
