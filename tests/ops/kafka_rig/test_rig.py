"""The rig where Java and Maven are there, fail, hang, or are not there at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ops.kafka_rig import rig as rig_module
from ops.kafka_rig.rig import SOURCES, Absent, Program, Rig, RigError, prepare, run_to_end
from tests.ops.kafka_rig.programs import Programs, has_ended

# Maven's argument -Dmdep.outputFile= says where it writes the class path.
RESOLVE = 'for argument; do file="${{argument#-Dmdep.outputFile=}}"; done; echo "{jars}" > "$file"'


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "kafka.jar"
    path.touch()
    return path


@pytest.fixture
def kafka(programs: Programs, jar: Path) -> Programs:
    """A machine on which everything is there."""
    programs.write("java", "")
    programs.write("javac", "")
    programs.write("mvn", RESOLVE.format(jars=jar))
    return programs


def reason(directory: Path) -> str:
    prepared = prepare(directory)
    assert isinstance(prepared, Absent)
    return prepared.reason


@pytest.mark.parametrize("missing", ["java", "javac", "mvn"])
def test_what_is_missing_is_named(kafka: Programs, tmp_path: Path, missing: str) -> None:
    """The rig is absent, and says for want of what."""
    (tmp_path / "programs" / missing).unlink()
    assert reason(tmp_path / "rig") == f"no {missing}"


def test_a_failure_of_maven_or_the_compiler_is_told_in_its_own_words(
    kafka: Programs, tmp_path: Path
) -> None:
    """Nothing is left of an attempt that failed, so the next one begins anew."""
    kafka.write("mvn", "echo cannot resolve >&2; exit 3")
    assert reason(tmp_path / "rig") == "mvn: exit code 3: cannot resolve"
    kafka.write("mvn", RESOLVE.format(jars=tmp_path / "programs" / "java"))
    kafka.write("javac", "echo bad source; exit 1")
    assert reason(tmp_path / "rig") == "javac: exit code 1: bad source"
    assert list((tmp_path / "rig").iterdir()) == []


@pytest.mark.parametrize("script", ["", RESOLVE.format(jars=""), RESOLVE.format(jars="/none.jar")])
def test_jars_that_are_not_there_are_no_kafka(kafka: Programs, tmp_path: Path, script: str) -> None:
    """Maven may say that all is well and leave nothing."""
    kafka.write("mvn", script)
    assert reason(tmp_path / "rig") == "mvn: named no jars, or jars that are not there"


def test_a_maven_that_hangs_is_not_waited_for(
    kafka: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed with whatever it started."""
    monkeypatch.setattr(rig_module, "_RESOLVE_TIMEOUT_SECONDS", 0.2)
    kafka.write("mvn", "sleep 60")
    began = time.monotonic()
    assert reason(tmp_path / "rig") == "mvn: not done in 0.2 s"
    assert time.monotonic() - began < 30


def test_what_was_built_is_used_again(kafka: Programs, tmp_path: Path, jar: Path) -> None:
    """Until a jar goes away."""
    first = prepare(tmp_path / "rig")
    assert isinstance(first, Rig)
    assert first.classpath.endswith(f"classes:{jar}")
    built = kafka.calls
    assert [call.split()[0] for call in built] == ["mvn", "javac"]
    assert f"-cp {jar} " in built[1]
    assert prepare(tmp_path / "rig") == first
    assert kafka.calls == built
    jar.unlink()
    assert reason(tmp_path / "rig") == "mvn: named no jars, or jars that are not there"
    jar.touch()
    assert prepare(tmp_path / "rig") == first


def test_other_sources_are_built_anew(
    kafka: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state of the sources, Maven's or Java's, has its own place."""
    sources = tmp_path / "sources"
    (sources / "java").mkdir(parents=True)
    pom, java = sources / "pom.xml", sources / "java" / "A.java"
    monkeypatch.setattr(rig_module, "SOURCES", sources)
    built = set()
    for pom_text, java_text in (("a", "a"), ("b", "a"), ("b", "b"), ("a", "a")):
        pom.write_text(pom_text)
        java.write_text(java_text)
        prepared = prepare(tmp_path / "rig")
        assert isinstance(prepared, Rig)
        built.add(prepared.classpath)
    assert len(built) == 3
    assert len(kafka.calls) == 6


def test_no_registry_is_named() -> None:
    """Where artifacts come from is the machine's business, not the project's."""
    text = (SOURCES / "pom.xml").read_text()
    assert "<repositor" not in text
    assert "http" not in text


def test_a_tool_gives_exit_code_and_output(programs: Programs) -> None:
    """Whatever the exit code, and in UTF-8."""
    programs.write("java", "echo 'zoé'; echo wrong >&2; exit 3")
    done = Rig("a.jar").run(Program.ACLS, "--list")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "zoé\n", "wrong\n")
    (call,) = programs.calls
    assert call.endswith("-cp a.jar org.apache.kafka.tools.AclCommand --list")


def test_a_tool_that_hangs_or_is_missing_is_an_error(programs: Programs) -> None:
    """It names the program and the bound."""
    with pytest.raises(RigError, match="java: No such file or directory"):
        Rig("").run(Program.TOPICS)
    programs.write("java", 'sleep 60 & echo $! >> "$calls"; wait')
    with pytest.raises(RigError, match=r"java: not done in 1 s"):
        Rig("").run(Program.TOPICS, timeout_seconds=1)
    assert has_ended(int(programs.calls[-1])), "what it had started ends with it"


def test_every_program_has_its_main_class() -> None:
    """None is forgotten in the table."""
    assert all(program.main_class for program in Program)


def test_what_is_written_is_read(programs: Programs) -> None:
    """Standard input is the caller's text."""
    programs.write("java", "cat")
    assert run_to_end(["java"], written="käse\n", timeout_seconds=10).stdout == "käse\n"


def test_files_are_dumped_together(programs: Programs) -> None:
    """One JVM serves several files."""
    programs.write("java", "")
    Rig("").dump_log(Path("1.log"), Path("2.log"))
    assert programs.calls[0].endswith("--cluster-metadata-decoder --files 1.log,2.log")


def test_the_shell_sees_a_copy(programs: Programs, tmp_path: Path) -> None:
    """In a directory named alike; the original may be locked by whoever owns it."""
    file = tmp_path / "__cluster_metadata-0" / "1.checkpoint"
    file.parent.mkdir()
    file.write_text("contents")
    script = 'for argument; do case "$argument" in *.checkpoint) cat "$argument";; esac; done'
    programs.write("java", script)
    assert Rig("").metadata_shell(file, "ls", "/image").stdout == "contents"
    (call,) = programs.calls
    assert call.endswith("/__cluster_metadata-0/1.checkpoint ls /image")
    assert str(tmp_path) not in call
