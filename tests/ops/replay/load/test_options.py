"""The options of a load, its thresholds, and the checks before it starts."""

import argparse
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.errors import LoadError
from authorizerd.replay.load import options
from authorizerd.replay.load.checks import check_plan
from authorizerd.replay.load.thresholds import judge, parse_thresholds
from authorizerd.replay.options import PathError
from authorizerd.replay.plans import LoadPlan, decode_plan, encode_plan
from authorizerd.replay.submit.options import add_spark_arguments
from tests.support.certificates import Authority
from tests.support.fixture_types import MonkeyPatch
from tests.support.printed import run_main


def make_plan(folder: Path, *words: str, is_local: bool = True) -> LoadPlan:
    (folder / "in").mkdir(exist_ok=True)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.set_defaults(refuse=parser.error, overwrite=False, out=str(folder / "out"))
    options.add_arguments(parser)
    add_spark_arguments(parser)
    asked = ["--events", str(folder / "in"), "--target", "127.0.0.1:8183", *words]
    return options.make_plan(parser.parse_args(asked), is_local=is_local)


def refusal(folder: Path, *words: str | Path) -> str:
    """Return what is printed about words that make no plan; the exit code is 2."""

    def run(given: list[str]) -> int:
        make_plan(folder, *given)
        return 0

    return run_main(*words, code=2, main=run).err


def test_every_option_reaches_the_plan(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("id.secret\nmore\n")
    plan = make_plan(
        tmp_path,
        *("--surface", "http", "--mode", "open", "--rate", "1000", "--lanes", "2"),
        *("--batch", "10", "--depth", "4", "--warmup", "1", "--duration", "5", "--max-gap", "2"),
        *("--loop", "0", "--start-margin", "2", "--max-send-lag", "5", "--dry-run"),
        *("--reconnect", "7"),
        *("--fail-on", "p99<5ms,mismatch=0", "--token-file", str(token)),
    )
    assert plan == LoadPlan(
        events=str(tmp_path / "in"), out=str(tmp_path / "out"), target="127.0.0.1:8183",
        run_id=plan.run_id, surface="http", rate=1000.0, lanes=2, batch=10, depth=4,
        warm_up_s=1.0, duration_s=5.0, max_gap_s=2.0, loop=0, start_margin_s=2.0,
        max_send_lag_ms=5.0, fail_on="p99<5ms,mismatch=0", token="id.secret", dry_run=True,
        reconnect_s=7.0,
    )  # fmt: skip
    other = make_plan(tmp_path, "--reconnect")
    assert (other.reconnect_s, make_plan(tmp_path).reconnect_s) == (30.0, None)
    assert plan.run_id != other.run_id


@pytest.mark.parametrize(("words", "complaint"), [
    (("--rate", "10", "--speed", "2"), "speed: has no effect with a rate"),
    (("--token-file", "/nowhere/token"), "--token-file: /nowhere/token: No such"),
])  # fmt: skip
def test_wrong_option_exits_with_2(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    assert complaint in refusal(tmp_path, *words)


def test_token_is_neither_empty_nor_printed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    assert "token: empty" in refusal(tmp_path, "--token-file", token)
    token.write_text("id.secret\n")
    told = refusal(tmp_path, "--print", "--token-file", token)
    assert "--token-file: not with --print" in told
    assert "secret" not in told
    assert "secret" not in repr(msgspec.structs.replace(GOOD, token="id.secret"))


def test_tls_files_are_read_only_on_this_machine(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
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
def test_unusable_tls_file_is_named(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    """OpenSSL must not ask the terminal for a password."""
    authority = Authority(tmp_path)
    (tmp_path / "junk").write_text("junk")
    key = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"marker-password")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (tmp_path / "locked").write_bytes(key.private_bytes(*form, encryption))
    paths = [each if each.startswith("--") else tmp_path / each for each in words]
    assert complaint in refusal(tmp_path, "--target", "tls://h:1", *paths)


@pytest.mark.parametrize(("text", "figure", "passes", "fails", "shown"), [
    ("p99<5ms", "p99", 4_999_999, 5_000_000, "5 ms"),
    ("p99.9 <= 1.5s", "p99.9", 1_500_000_000, 1_500_000_001, "1500 ms"),
    ("max<250us", "max", 249_999, 6_500_000, "6.5 ms"),
    ("outage<5s", "outage", 0, 5_500_000_000, "5500 ms"),
    ("mismatch=0", "mismatch", 0, 3, "3"),
    ("errors=0", "errors", 0, 1, "1"),
    ("dropped = 0", "dropped", 0, 1, "1"),
    ("lost=0", "lost", 0, 1, "1"),
    ("rate>=10", "rate", 10, 9.5, "9.5/s"),
    ("rate>=0", "rate", 0, None, "nothing"),
])  # fmt: skip
def test_thresholds_are_judged(
    text: str, figure: str, passes: float, fails: float | None, shown: str
) -> None:
    first, threshold = parse_thresholds(f"p50<1s,{text}")
    assert (first.figure, threshold.figure) == ("p50", figure)
    passed, *failed = (judge(threshold, measured) for measured in (passes, fails, None))
    assert passed.passed
    assert not any(verdict.passed for verdict in failed)
    assert [verdict.measured_text for verdict in failed] == [shown, "nothing"]


@pytest.mark.parametrize("text", [
    "p98<5ms", "p99<5", "p99<5min", "p99>5ms", "p99=5ms", "p99<-5ms", "mismatch=1", "mismatch<1",
    "lost<5", "outage=0", "rate<5", "rate>=5ms", "fast", "",
])  # fmt: skip
def test_malformed_threshold_is_named_with_the_valid_ones(text: str) -> None:
    with pytest.raises(LoadError) as raised:
        parse_thresholds(f"p99<5ms,{text}")
    assert str(raised.value).startswith(f"threshold {text!r}: expected p50, p90, p99, p99.9, max")
    assert parse_thresholds(" ") == ()


@given(st.text("p950.<>=msu, rate1", max_size=12))
def test_any_text_gives_thresholds_or_a_load_error(text: str) -> None:
    with suppress(LoadError):
        parse_thresholds(text)


GOOD = LoadPlan(events="in", out="out", target="127.0.0.1:8183", run_id="1")


@pytest.mark.parametrize("changed", [
    {}, {"target": "[::1]:8183"}, {"target": "unix:/run/stream"},
    {"mode": "closed", "duration_s": 5.0}, {"rate": 1000.0, "loop": 0, "duration_s": 60.0},
    {"profile": "ramp:0:1000:30"}, {"reconnect_s": 5.0, "fail_on": "outage<5s,lost=0"},
    {"surface": "http", "token": "id.secret", "fail_on": "p99<5ms,mismatch=0"},
    {"target": "tls://[::1]:8183", "cafile": "ca", "cert": "cert", "key": "key"},
    {"target": "https://h:8181", "surface": "http", "cert": "both"},
])  # fmt: skip
def test_valid_plan_passes_and_reads_back(changed: dict[str, object]) -> None:
    plan = msgspec.structs.replace(GOOD, **changed)
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan


@pytest.mark.parametrize(("changed", "complaint"), [
    ({"target": "localhost"}, "target 'localhost': expected HOST:PORT"),
    ({"target": ":80"}, "target ':80': expected HOST:PORT"),
    ({"target": "h:0"}, "target 'h:0': expected HOST:PORT"),
    ({"target": "h:65536"}, "expected HOST:PORT"),
    ({"target": "h:²"}, "expected HOST:PORT"),
    ({"target": "unix:/x", "surface": "http"}, "since the surface is http"),
    ({"target": "tls://h:1", "surface": "http"}, "expected HOST:PORT or https://HOST:PORT"),
    ({"target": "https://h:1"}, "expected HOST:PORT, tls://HOST:PORT or unix:PATH"),
    ({"target": "http://h:1", "surface": "http"}, "target 'http://h:1': expected HOST:PORT"),
    ({"cafile": "ca"}, "cafile: has no effect, because the target '127.0.0.1:8183' has no TLS"),
    ({"cert": "c", "target": "unix:/x"}, "cert: has no effect"),
    ({"key": "k", "target": "tls://h:1"}, "key: has no effect without cert"),
    ({"surface": "grpc"}, "surface 'grpc': expected stream or http"),
    ({"mode": "ajar"}, "mode 'ajar': expected open or closed"),
    ({"lanes": 0}, "lanes 0: expected 1 to"),
    ({"batch": 1001}, "batch 1001: expected 1 to 1000"),
    ({"depth": 0}, "depth 0"),
    ({"loop": -1}, "loop -1"),
    ({"loop": 0}, "loop 0: repeats until the duration is over"),
    ({"loop": 0, "mode": "closed", "duration_s": 5.0}, "loop 0"),
    ({"speed": 0.0}, "speed 0"),
    ({"speed": float("nan")}, "speed nan"),
    ({"rate": float("inf")}, "rate inf"),
    ({"duration_s": 0.0}, "duration 0: expected 0.001 to 1e+09"),
    ({"max_gap_s": -1.0}, "max-gap -1"),
    ({"warm_up_s": -1.0}, "warmup -1"),
    ({"speed": 2.0, "rate": 5.0}, "speed: has no effect with"),
    ({"mode": "closed", "rate": 5.0}, "mode closed: has no schedule"),
    ({"profile": "sine"}, "profile 'sine'"),
    ({"fail_on": "p1<3"}, "threshold 'p1<3'"),
    ({"fail_on": "outage<5s"}, "threshold 'outage<5s': requires --reconnect"),
    ({"fail_on": "lost=0"}, "threshold 'lost=0': requires --reconnect"),
    ({"reconnect_s": 0.0}, "reconnect 0: expected 0.001 to 1e+06"),
    ({"token": "a\r\nX-Evil: 1"}, "token: expected one line"),
    ({"token": ""}, "token: expected one line"),
])  # fmt: skip
def test_unusable_value_is_named(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(LoadError) as raised:
        check_plan(msgspec.structs.replace(GOOD, **changed))
    assert complaint in str(raised.value)
