from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from authorizerd.replay.load import options
from authorizerd.replay.options import PathError
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.submit.options import add_spark_arguments
from tests.support.certificates import Authority


def make_plan(folder: Path, *words: str, is_local: bool = True) -> LoadPlan:
    (folder / "in").mkdir(exist_ok=True)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.set_defaults(refuse=parser.error, overwrite=False, out=str(folder / "out"))
    options.add_arguments(parser)
    add_spark_arguments(parser)
    asked = ["--events", str(folder / "in"), "--target", "127.0.0.1:8183", *words]
    return options.make_plan(parser.parse_args(asked), is_local=is_local)


def test_every_option_reaches_the_plan(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("id.secret\nmore\n")
    plan = make_plan(
        tmp_path,
        *("--surface", "http", "--mode", "open", "--rate", "1000", "--lanes", "2"),
        *("--batch", "10", "--depth", "4", "--warmup", "1", "--duration", "5", "--max-gap", "2"),
        *("--loop", "0", "--start-margin", "2", "--max-send-lag", "5", "--dry-run"),
        *("--fail-on", "p99<5ms,mismatch=0", "--token-file", str(token)),
    )
    assert plan == LoadPlan(
        events=str(tmp_path / "in"), out=str(tmp_path / "out"), target="127.0.0.1:8183",
        run_id=plan.run_id, surface="http", rate=1000.0, lanes=2, batch=10, depth=4,
        warm_up_s=1.0, duration_s=5.0, max_gap_s=2.0, loop=0, start_margin_s=2.0,
        max_send_lag_ms=5.0, fail_on="p99<5ms,mismatch=0", token="id.secret", dry_run=True,
    )  # fmt: skip
    assert plan.run_id != make_plan(tmp_path).run_id


@pytest.mark.parametrize(("words", "complaint"), [
    (("--fail-on", "p98<1ms"), "threshold 'p98<1ms'"),
    (("--profile", "sine"), "profile 'sine'"),
    (("--target", "here"), "target 'here'"),
    (("--rate", "10", "--speed", "2"), "speed: has no effect with a rate"),
    (("--batch", "5000"), "batch 5000"),
    (("--token-file", "/nowhere/token"), "--token-file: /nowhere/token"),
    (("--mode", "closed", "--rate", "5"), "mode closed"),
])  # fmt: skip
def test_wrong_option_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_plan(tmp_path, *words)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_empty_token_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").touch()
    with pytest.raises(SystemExit):
        make_plan(tmp_path, "--token-file", str(tmp_path / "token"))
    assert "token: empty" in capsys.readouterr().err


def test_print_rejects_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("id.secret\n")
    words = ("--print", "--token-file", str(tmp_path / "token"))
    with pytest.raises(SystemExit) as ended:
        make_plan(tmp_path, *words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "--token-file: not with --print" in told
    assert "secret" not in told


def test_tls_files_are_read_only_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths become absolute. Elsewhere, the same path may name another file."""
    authority = Authority(tmp_path)
    pair = authority.issue("client")
    monkeypatch.chdir(tmp_path)
    words = ("--target", "tls://h:1", "--cafile", authority.ca_file.name, "--cert", pair.name)
    plan = make_plan(tmp_path, *words, "--key", pair.name)
    assert (plan.cafile, plan.cert, plan.key) == (str(authority.ca_file), str(pair), str(pair))
    absent = ("--target", "tls://h:1", "--cafile", "tls/absent", "--cert", "absent")
    plan = make_plan(tmp_path, *absent, is_local=False)
    assert (plan.cafile, plan.cert, plan.key) == ("tls/absent", "absent", None)
    with pytest.raises(PathError, match="tls/absent: no such file"):
        make_plan(tmp_path, *absent)


@pytest.mark.parametrize(("words", "complaint"), [
    (("--cafile", "junk"), "junk: expected certificates in PEM"),
    (("--cert", "junk"), "junk: expected a certificate chain and its key in PEM"),
    (("--cert", "ca.pem"), "expected a certificate chain and its key"),
    (("--cert", "ca.pem", "--key", "locked"), "locked: expected a certificate chain and its key"),
])  # fmt: skip
def test_unusable_tls_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    """OpenSSL must not ask the terminal for a password."""
    authority = Authority(tmp_path)
    (tmp_path / "junk").write_text("junk")
    key = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    (tmp_path / "locked").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"marker-password"),
        )
    )
    paths = [each if each.startswith("--") else str(tmp_path / each) for each in words]
    with pytest.raises(SystemExit):
        make_plan(tmp_path, "--target", "tls://h:1", *paths)
    assert complaint in capsys.readouterr().err
