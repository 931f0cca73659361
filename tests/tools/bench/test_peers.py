"""A missing peer is left out with the reason."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from authorizerd.metadata.directory import checkpoint_name
from tools.bench import kafka_peer
from tools.bench.figures import Absent
from tools.bench.kafka_peer import KafkaPeer
from tools.bench.opa_peer import make_policy_data, ready_opa
from tools.bench.processes import PEERS, find_program
from tools.bench.sets import kind

SOURCES = Path(kafka_peer.__file__).parent / "jvm"


def no_program(name: str, path: Path | None = None) -> None:
    return None


@pytest.mark.parametrize("missing", ["java", "javac", "mvn"])
def test_peer_is_absent_without_java_or_maven(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else f"/bin/{name}")
    assert kafka_peer.prepare(tmp_path) == KafkaPeer(Absent(f"no {missing}"))


def test_peer_is_absent_if_maven_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 1, b"", b"Could not transfer artifact")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", fail)
    peer = kafka_peer.prepare(tmp_path)
    assert peer == KafkaPeer(Absent("mvn: exit code 1: Could not transfer artifact"))
    assert peer.decisions(tmp_path, "kind", 1.0) == peer.classpath
    assert peer.state(tmp_path, "kind") == peer.classpath


def test_figures_are_absent_if_the_jvm_fails(tmp_path: Path) -> None:
    peer = KafkaPeer("no-such-class-path")
    checkpoint = tmp_path / checkpoint_name(7, 1)
    for measured in (peer.state(tmp_path, "kind"), peer.start(checkpoint, tmp_path / "questions")):
        assert isinstance(measured, Absent)
        assert "java" in measured.reason


def test_pom_names_no_registry() -> None:
    """The machine's own Maven settings choose the registry."""
    pom = (SOURCES / "pom.xml").read_text()
    assert "4.3.1" in pom
    assert "repositor" not in pom.lower()


def test_built_peer_is_preferred_to_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("opa") is None
    for directory in (tmp_path, tmp_path / PEERS):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "opa").touch(0o700)
        assert find_program("opa") == directory / "opa"


def test_opa_is_absent_if_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", no_program)
    with ready_opa(tmp_path, kind().acls()) as opa:
        assert opa == Absent("no opa")


def test_policy_data_is_indexed_as_the_policy_reads_it() -> None:
    data = make_policy_data(kind().acls())
    topics = data["acls"]["ALLOW"]["LITERAL"]["TOPIC"]
    assert len(topics) == 10_000
    assert topics["topic-00007"] == {
        "User:u7": {"READ": {"*": True}},
        "User:w7": {"WRITE": {"*": True}},
    }
    assert data["prefix_lengths"] == {"TOPIC": [9]}
