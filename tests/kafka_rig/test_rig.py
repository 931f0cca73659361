"""The rig with Java and Maven that work, fail, hang or are missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kafka_rig import rig as rig_module
from tests.kafka_rig.programs import Programs, has_ended
from tests.kafka_rig.rig import (
    NEWEST_VERSION,
    SOURCES,
    VERSION,
    Absent,
    Program,
    Rig,
    RigError,
    prepare,
    run_to_end,
)

# Maven writes the class path to the file in -Dmdep.outputFile=.
RESOLVE = 'for argument; do file="${{argument#-Dmdep.outputFile=}}"; done; echo "{jars}" > "$file"'


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "kafka.jar"
    path.touch()
    return path


@pytest.fixture
def kafka(programs: Programs, jar: Path) -> Programs:
    """A machine with working programs."""
    programs.write("java", "")
    programs.write("javac", "")
    programs.write("mvn", RESOLVE.format(jars=jar))
    return programs


def reason(directory: Path) -> str:
    prepared = prepare(directory)
    assert isinstance(prepared, Absent)
    return prepared.reason


@pytest.mark.parametrize("missing", ["java", "javac", "mvn"])
def test_missing_program_is_named(kafka: Programs, tmp_path: Path, missing: str) -> None:
    (tmp_path / "programs" / missing).unlink()
    assert reason(tmp_path / "rig") == f"no {missing}"


def test_failure_of_maven_or_javac_is_reported_and_leaves_nothing(
    kafka: Programs, tmp_path: Path
) -> None:
    kafka.write("mvn", "echo cannot resolve >&2; exit 3")
    assert reason(tmp_path / "rig") == "mvn: exit code 3: cannot resolve"
    kafka.write("mvn", RESOLVE.format(jars=tmp_path / "programs" / "java"))
    kafka.write("javac", "echo bad source; exit 1")
    assert reason(tmp_path / "rig") == "javac: exit code 1: bad source"
    assert list((tmp_path / "rig").iterdir()) == []


@pytest.mark.parametrize("script", ["", RESOLVE.format(jars=""), RESOLVE.format(jars="/none.jar")])
def test_missing_jars_are_reported(kafka: Programs, tmp_path: Path, script: str) -> None:
    kafka.write("mvn", script)
    assert reason(tmp_path / "rig") == "mvn: no jars, or missing jars, in the class path"


def test_hanging_maven_is_killed(
    kafka: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig_module, "_RESOLVE_TIMEOUT_SECONDS", 0.2)
    kafka.write("mvn", "sleep 60")
    began = time.monotonic()
    assert reason(tmp_path / "rig") == "mvn: not finished in 0.2 s"
    assert time.monotonic() - began < 30


def test_build_is_reused_while_its_jars_exist(kafka: Programs, tmp_path: Path, jar: Path) -> None:
    first = prepare(tmp_path / "rig")
    assert isinstance(first, Rig)
    assert first.classpath.endswith(f"classes:{jar}")
    built = kafka.calls
    assert [call.split()[0] for call in built] == ["mvn", "javac"]
    assert f"-cp {jar} " in built[1]
    assert prepare(tmp_path / "rig") == first
    assert kafka.calls == built
    jar.unlink()
    assert reason(tmp_path / "rig") == "mvn: no jars, or missing jars, in the class path"
    jar.touch()
    assert prepare(tmp_path / "rig") == first


def test_changed_sources_are_built_separately(
    kafka: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_each_release_is_built_separately(kafka: Programs, tmp_path: Path) -> None:
    """Maven gets the release, and no build is taken for another release's."""
    versions = (VERSION, NEWEST_VERSION, VERSION)
    built = [prepare(tmp_path / "rig", version=version) for version in versions]
    assert built[0] == built[2] != built[1]
    first, second = (call for call in kafka.calls if call.startswith("mvn"))
    assert f"-Dkafka.version={VERSION} " in first
    assert f"-Dkafka.version={NEWEST_VERSION} " in second


@pytest.mark.parametrize(("version", "is_compiled"), [("3.9.1", False), (VERSION, True)])
def test_class_that_needs_kafka_4_is_compiled_only_there(
    version: str, is_compiled: bool, kafka: Programs, tmp_path: Path
) -> None:
    assert isinstance(prepare(tmp_path / "rig", version=version), Rig)
    [compilation] = (call for call in kafka.calls if call.startswith("javac"))
    assert ("AdminPeer.java" in compilation) is is_compiled
    assert "DecisionCase.java" in compilation


def test_pom_names_no_registry() -> None:
    text = (SOURCES / "pom.xml").read_text()
    assert "<repositor" not in text
    assert "http" not in text


def test_tool_returns_exit_code_and_output_in_utf_8(programs: Programs) -> None:
    programs.write("java", "echo 'zoé'; echo wrong >&2; exit 3")
    done = Rig("a.jar").run(Program.ACLS, "--list")
    assert (done.exit_code, done.stdout, done.stderr) == (3, "zoé\n", "wrong\n")
    (call,) = programs.calls
    assert call.endswith("-cp a.jar org.apache.kafka.tools.AclCommand --list")


def test_missing_tool_is_an_error_and_hanging_tool_is_killed(programs: Programs) -> None:
    with pytest.raises(RigError, match="java: No such file or directory"):
        Rig("").run(Program.TOPICS)
    programs.write("java", 'sleep 60 & echo $! >> "$calls"; wait')
    with pytest.raises(RigError, match=r"java: not finished in 1 s"):
        Rig("").run(Program.TOPICS, timeout_seconds=1)
    assert has_ended(int(programs.calls[-1])), "its child must end too"


def test_interrupted_program_has_ended_before_the_interrupt_goes_on(programs: Programs) -> None:
    """It reads a line first, so that the signal arrives while its end is awaited."""
    programs.write("java", 'read line; echo $$ >> "$calls"; kill -INT $PPID; exec sleep 60')
    with pytest.raises(KeyboardInterrupt):
        run_to_end(["java"], written="go\n", timeout_seconds=10)
    assert not Path(f"/proc/{programs.calls[-1]}").exists()


def test_every_program_has_a_main_class() -> None:
    assert all(program.main_class for program in Program)


def test_text_is_passed_to_standard_input(programs: Programs) -> None:
    programs.write("java", "cat")
    assert run_to_end(["java"], written="käse\n", timeout_seconds=10).stdout == "käse\n"


def test_files_are_dumped_in_one_call(programs: Programs) -> None:
    programs.write("java", "")
    Rig("").dump_log(Path("1.log"), Path("2.log"))
    assert programs.calls[0].endswith("--cluster-metadata-decoder --files 1.log,2.log")


def test_metadata_shell_reads_a_copy(programs: Programs, tmp_path: Path) -> None:
    """The shell locks the directory, which another process may have locked."""
    file = tmp_path / "__cluster_metadata-0" / "1.checkpoint"
    file.parent.mkdir()
    file.write_text("contents")
    script = 'for argument; do case "$argument" in *.checkpoint) cat "$argument";; esac; done'
    programs.write("java", script)
    assert Rig("").metadata_shell(file, "ls", "/image").stdout == "contents"
    (call,) = programs.calls
    assert call.endswith("/__cluster_metadata-0/1.checkpoint ls /image")
    assert str(tmp_path) not in call
