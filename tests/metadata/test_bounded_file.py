"""Commands end at an input without an end, with an error instead of a crash."""

from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.metadata import bounded_file

SIZE = 2 * 1024 * 1024


@pytest.fixture(autouse=True)
def _smaller_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_file, "FILE_BYTES_MAX", SIZE)


@pytest.mark.parametrize(
    "words",
    [
        "plan /dev/zero --acls FILE",
        "plan FILE --acls /dev/zero",
        "plan FILE --acls FILE --allow-everyone-if-no-acl-found false --traffic-report /dev/zero",
        "apply /dev/zero --bootstrap-server 127.0.0.1:1",
        "import yaml:/dev/zero --to listing:-",
    ],
)
def test_endless_file_is_rejected(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acls.yaml"
    file.write_text("acls: []")
    assert main(["acls", *words.replace("FILE", str(file)).split()]) == 1
    error = capsys.readouterr().err
    assert error.startswith("authorizerd: ")
    assert error.endswith(f"/dev/zero: expected at most {SIZE} bytes, found more\n")


def test_endless_standard_input_is_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        assert main(["acls", "import", "yaml:-", "--to", "listing:-"]) == 1
    assert f"standard input: expected at most {SIZE} bytes" in capsys.readouterr().err


def test_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    assert bounded_file.read_file(path) == bytes(SIZE)
