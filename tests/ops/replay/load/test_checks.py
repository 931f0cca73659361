from __future__ import annotations

import msgspec
import pytest

from authorizerd.replay.load.checks import check_plan
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.plans import LoadPlan, decode_plan, encode_plan

GOOD = LoadPlan(events="in", out="out", target="127.0.0.1:8183", run_id="1")


@pytest.mark.parametrize("changed", [
    {}, {"target": "[::1]:8183"}, {"target": "unix:/run/stream"},
    {"mode": "closed", "duration_s": 5.0}, {"rate": 1000.0, "loop": 0, "duration_s": 60.0},
    {"profile": "ramp:0:1000:30"},
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
    ({"token": "a\r\nX-Evil: 1"}, "token: expected one line"),
    ({"token": ""}, "token: expected one line"),
])  # fmt: skip
def test_unusable_value_is_named(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(LoadError) as raised:
        check_plan(msgspec.structs.replace(GOOD, **changed))
    assert complaint in str(raised.value)


def test_repr_hides_the_token() -> None:
    assert "secret" not in repr(msgspec.structs.replace(GOOD, token="id.secret"))
