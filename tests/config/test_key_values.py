import pytest

from authorizerd.config.errors import ConfigurationError
from authorizerd.config.key_values import read_key_values
from authorizerd.config.keys import KEYS_BY_NAME
from authorizerd.config.properties import Property, parse_properties
from authorizerd.config.values import sasl_mechanisms

SOURCE = "server.properties"


def properties(text: str) -> dict[str, Property]:
    return parse_properties(text, source=SOURCE)


def test_each_key_of_the_table_has_a_value() -> None:
    """The trimmed text's value, the default, or None."""
    keys = read_key_values(properties("node.id = 7 \n"), SOURCE)
    assert keys.values.keys() == KEYS_BY_NAME.keys()
    assert keys.values["node.id"] == 7
    assert keys.values["authorizerd.workers"] == 1
    assert keys.values["log.dirs"] is None


def test_refusal_names_the_place_of_its_key() -> None:
    keys = read_key_values(properties("node.id=1\nlog.dirs=/a\n"), SOURCE)
    assert str(keys.refusal("log.dirs", "is full")) == "server.properties:2: log.dirs: is full"
    assert str(keys.refusal("log.dir", "is bad")) == "server.properties: log.dir: is bad"


def test_key_outside_the_table_is_read_by_a_given_parser() -> None:
    keys = read_key_values(properties("node.id=1\na= PLAIN \nb=GSSAPI\n"), SOURCE)
    assert keys.read("a", sasl_mechanisms) == ("PLAIN",)
    assert keys.read("absent", sasl_mechanisms) is None
    with pytest.raises(
        ConfigurationError, match=r"^server\.properties:3: b: this version does not support GSSAPI"
    ):
        keys.read("b", sasl_mechanisms)
