"""The doctor's checks of listeners with OAUTHBEARER."""

from pathlib import Path

from authorizerd.cli.doctor.issuers import examine_issuers
from authorizerd.config.configuration import parse_values
from authorizerd.config.oauth_keys import UNSECURED
from tests.support.issuer import KEY, jwk_of, jwks_of

BASE = {
    "node.id": "1", "log.dirs": "/log", "listeners": "SASL_PLAINTEXT://127.0.0.1:1",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}  # fmt: skip


def texts(**settings: str) -> list[str]:
    values = {f"sasl.{key.replace('_', '.')}": value for key, value in settings.items()}
    findings = examine_issuers(parse_values(BASE | values, source="f"))
    return [f"{each.level.value}: {each.text}" for each in findings]


def test_keys_of_the_issuer_are_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    url = {"oauthbearer_jwks_endpoint_url": f"file://{path}"}
    rules = {"oauthbearer_expected_audience": "kafka", "oauthbearer_expected_issuer": "https://i"}
    missing = f"SASL_PLAINTEXT: the issuer's keys: {path}: No such file or directory"
    assert texts(**url, **rules) == [f"error: {missing}"]
    path.write_bytes(jwks_of({}))
    unusable = f"error: SASL_PLAINTEXT: no usable key in file://{path}: every login fails"
    assert texts(**url, **rules) == [unusable]
    path.write_bytes(jwks_of(jwk_of(KEY, "k1"), {}))
    usable = f"ok: SASL_PLAINTEXT: usable keys in file://{path}: 1"
    assert texts(**url, **rules) == [usable]
    assert [text.partition(": SASL")[0] for text in texts(**url)] == ["ok", "warning", "warning"]


def test_unsecured_tokens_are_a_warning() -> None:
    (found,) = texts(server_callback_handler_class=UNSECURED)
    assert found.startswith("warning: SASL_PLAINTEXT: accepts unsecured tokens")
