"""Placeholders of configurations, compared with Kafka's answers, and what errors do not show."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config import providers
from authorizerd.config.configuration import Configuration, parse, parse_values
from authorizerd.config.dynamic import split_valid
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.properties import Property
from authorizerd.config.providers import has_placeholder, resolve_placeholders
from tests.config.placeholder_rows import ROWS

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file,dir,env",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
}
BASE = {"node.id": "1", "log.dirs": "/d", **PROVIDERS}
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
LOG_IN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SHORT = {
    "file.allowed": "config.providers.file.param.allowed.paths",
    "dir.allowed": "config.providers.dir.param.allowed.paths",
    "env.allowed": "config.providers.env.param.allowlist.pattern",
}
KAFKAS = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "envpw")
    monkeypatch.setenv("EMPTY_PW", "")


def write_secrets(folder: Path) -> None:
    """Write the files that the placeholders of ``ROWS`` name."""
    (folder / "s" / "sub").mkdir(parents=True)
    (folder / "t").mkdir()
    (folder / "s" / "p.properties").write_text(
        "pw=se\\u0063ret\nempty=\nnested=${env:PW}\numl=ü\na\\:b=colon\ndup=1\ndup=2\nsp=x y  \n",
        encoding="utf-8",
    )
    (folder / "s" / "latin.properties").write_bytes(b"pw=\xfc\n")
    (folder / "s" / "bad.properties").write_text("pw=\\u00\n")
    (folder / "s" / "plain").write_text("line\n")
    (folder / "s" / "bin").write_bytes(b"\xff\xfe")
    (folder / "t" / "other.properties").write_text("pw=other\n")
    (folder / "t" / "plain").write_text("t")
    (folder / "s" / "link.properties").symlink_to(folder / "t" / "other.properties")
    (folder / "s" / "linkplain").symlink_to(folder / "t" / "plain")
    (folder / "st").write_text("pw=st\n")


def resolve(values: dict[str, str]) -> dict[str, str]:
    places = {
        key: Property(key=key, value=value, source="f", line=1) for key, value in values.items()
    }
    return {key: place.value for key, place in resolve_placeholders(places).items()}


def configure(values: dict[str, str], *overrides: str) -> Configuration:
    text = "".join(f"{key}={value}\n" for key, value in {**BASE, **values}.items())
    return parse(text, source="f", overrides=overrides)


def refuse(values: dict[str, str], *overrides: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        configure(values, *overrides)
    return "\n".join(map(str, refused.value.faults))


def test_placeholders_give_what_kafka_gives(tmp_path: Path) -> None:
    """What Kafka leaves as it is, is refused here."""
    write_secrets(tmp_path)
    for value, extra, expected in ROWS:
        keys = {
            SHORT.get(key, f"config.{key}"): text.replace("@", PACKAGE)
            for key, text in extra.items()
        }
        values = {**PROVIDERS, **keys, "v": value}
        values = {key: text.replace("DIR", str(tmp_path)) for key, text in values.items()}
        if expected is not None:
            assert resolve(values)["v"] == expected, (value, extra)
        else:
            with pytest.raises(ConfigurationError):
                resolve(values)


@given(st.text("${}:ab", max_size=16))
def test_placeholder_is_what_kafkas_expression_finds(text: str) -> None:
    found = [match.group(0, 1, 3, 4) for match in KAFKAS.finditer(text)]
    ours = [
        match.group(0, "provider", "path", "key") for match in providers._PLACEHOLDER.finditer(text)
    ]
    assert ours == found
    assert has_placeholder(text) == bool(found)


def test_password_of_a_log_in_comes_from_a_provider(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    listener = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    line = f'{LOG_IN} user_a="${{env:PW}}" user_b="${{file:{tmp_path}/s/p.properties:nested}}";'
    made = configure({**listener, JAAS: line})
    users = made.sasl_listeners["SASL_PLAINTEXT"].users
    assert users.passwords == {"a": "envpw", "b": "${env:PW}"}
    assert made.ignored_keys == ()
    # What is resolved is never resolved again, in workers either.
    assert parse_values(made.file_values, source="w").sasl_listeners == made.sasl_listeners


def test_overrides_have_placeholders_and_providers() -> None:
    made = configure({}, "super.users=User:${env:PW}")
    assert made.file_values["super.users"] == "User:envpw"
    allowed = "config.providers.env.param.allowlist.pattern=X"
    assert "super.users: ${env:PW}: allowlist" in refuse({}, "super.users=${env:PW}", allowed)
    unset = "super.users: ${env:NONE}: this variable is not set"
    assert unset in refuse({}, "super.users=User:${env:NONE}")


@pytest.mark.parametrize(("key", "value"), [
    ("queued.max.requests", "${env:PW}"),
    ("listeners", "${env:PW}"),
    ("super.users", "${env:PW}"),
    ("authorizerd.decision.http", "http://${env:PW}"),
    ("ssl.truststore.type", "${env:PW}"),
    ("listener.security.protocol.map", "A:${env:PW}"),
    (JAAS, f"{LOG_IN} user_a=${{env:PW}} ${{env:PW}};"),
])  # fmt: skip
def test_no_error_shows_the_text_of_a_provider(key: str, value: str) -> None:
    said = refuse({"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
                   JAAS: f"{LOG_IN} user_a=b;", key: value})  # fmt: skip
    assert f": {key}: " in said
    assert "envpw" not in said


def test_without_providers_a_placeholder_is_refused_and_not_quoted() -> None:
    said = refuse({"config.providers": "", "x": "pass${wo:rd}"})
    assert said.startswith("f:7: x: found a placeholder, but no provider: set config.providers")
    assert "wo" not in said.split("no provider")[0]
    assert "rd}" not in said


@pytest.mark.parametrize("literal", ["RULE:^CN=(?<n>.*)$/${n}/,DEFAULT", "${x}", "a:$1}", "$"])
def test_other_dollars_are_text(literal: str) -> None:
    assert resolve({"x": literal}) == {"x": literal}


def test_special_and_large_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (providers.FILE_BYTES_MAX + 1))
    assert f"{tmp_path}:pipe}}: expected a regular file" in refuse(
        {"x": f"${{dir:{tmp_path}:pipe}}"}
    )
    assert "expected at most 1048576 bytes" in refuse({"x": f"${{dir:{tmp_path}:large}}"})
    (tmp_path / "large").write_bytes(b"x" * providers.FILE_BYTES_MAX)
    assert "characters from all" in refuse({"x": f"${{dir:{tmp_path}:large}}" * 5})


def test_a_clients_placeholder_is_refused_and_never_resolved() -> None:
    sound, faults = split_valid({"super.users": "User:${env:PW}", "plugged.key": "${file:/x:y}"})
    assert sound == {}
    assert [each.partition(":")[0] for each in faults] == ["super.users", "plugged.key"]
    with pytest.raises(ConfigurationError, match=r"queued.max.requests.*found '\$\{env:PW\}'"):
        parse_values({**BASE, "queued.max.requests": "${env:PW}"}, source="w")
