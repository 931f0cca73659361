"""The right to ask about principals: tokens, CLUSTER_ACTION and super users."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.errors import NotReadyError
from authorizerd.config.errors import ConfigurationError
from authorizerd.daemon.decisions.callers import Callers, Trusted
from tests.daemon.decision_place import (
    OTHER,
    PROXY,
    ROOT,
    SURFACE,
    TOKENS,
    Place,
    cluster_action,
    entry,
)
from tests.support.acls import snapshot_of


@pytest.mark.parametrize("token", [None, "", "nonsense", "proxy.secret", b"\xff"])
def test_without_a_tokens_file_every_caller_is_trusted(token: str | bytes | None) -> None:
    place = Place(None)
    caller = place.callers.identify(token, SURFACE)
    assert isinstance(caller, Trusted)
    assert caller.may_ask_about(PROXY, place.authorizer.current_state())


@pytest.mark.parametrize(
    "token",
    [None, "", b"", "proxy", "proxy.", "proxy.Secret", "nobody.secret", "proxy.secret\udcff"],
)
def test_with_a_tokens_file_every_caller_needs_a_token(
    token: str | bytes | None, tmp_path: Path
) -> None:
    assert Place(tmp_path).callers.identify(token, SURFACE) is None


@pytest.mark.parametrize("token", ["", "proxy.wrong", b"\xff"])
def test_wrong_token_is_refused_despite_a_certificate(token: str | bytes, tmp_path: Path) -> None:
    assert Place(tmp_path).callers.identify(token, SURFACE, certified=ROOT) is None


def test_caller_with_a_certificate_has_the_rights_of_its_principal(tmp_path: Path) -> None:
    place = Place(tmp_path, cluster_action(PROXY))
    state = place.authorizer.current_state()
    for certified, may_ask in ((PROXY, True), (ROOT, True), (OTHER, False)):
        caller = place.callers.identify(None, SURFACE, certified=certified)
        assert caller is not None
        assert caller.may_ask_about(certified, state)
        assert caller.may_ask_about("User:third", state) is may_ask


def test_callers_may_ask_about_themselves_and_super_users_about_all(tmp_path: Path) -> None:
    """Neither needs an ACL. Other callers need one to ask about others."""
    place = Place(tmp_path)
    assert place.may_ask_about("proxy", PROXY)
    assert place.may_ask_about("root", OTHER)
    assert not place.may_ask_about("proxy", OTHER)
    assert not place.may_ask_about("proxy", ROOT)


def test_cluster_action_is_the_right_to_ask_about_others(tmp_path: Path) -> None:
    """The ACL must be the caller's own. The token may be text or bytes."""
    place = Place(tmp_path, cluster_action(PROXY))
    assert place.may_ask_about("proxy", OTHER)
    assert not place.may_ask_about("other", PROXY)
    caller = place.callers.identify(b"proxy.secret", SURFACE)
    assert caller is not None
    assert caller.may_ask_about(OTHER, place.authorizer.current_state())


def test_a_callers_host_counts_as_unknown(tmp_path: Path) -> None:
    """An ALLOW for one host does not apply, but a DENY for any host does."""
    here = "127.0.0.1"
    assert not Place(tmp_path, cluster_action(PROXY, host=here)).may_ask_about("proxy", OTHER)
    place = Place(tmp_path, cluster_action(PROXY), cluster_action(PROXY, host=here, deny=True))
    assert not place.may_ask_about("proxy", OTHER)


def test_one_state_decides_the_right_and_the_question(tmp_path: Path) -> None:
    """Later changes apply to later requests."""
    place = Place(tmp_path, cluster_action(PROXY))
    caller, state = place.caller("proxy"), place.authorizer.current_state()
    place.snapshot.publish(snapshot_of())
    assert caller.may_ask_about(OTHER, state)
    assert not caller.may_ask_about(OTHER, place.authorizer.current_state())


def test_before_the_acls_are_loaded_only_super_users_may_ask_about_others(tmp_path: Path) -> None:
    """The right of any other caller is not known yet."""
    place = Place(tmp_path, loaded=False)
    assert place.may_ask_about("root", OTHER)
    assert place.may_ask_about("proxy", PROXY)
    with pytest.raises(NotReadyError):
        place.may_ask_about("proxy", OTHER)


def test_the_right_is_audited_and_not_counted(tmp_path: Path) -> None:
    """The metrics count only the callers' own questions."""
    place = Place(tmp_path)
    place.may_ask_about("proxy", OTHER)
    place.may_ask_about("proxy", PROXY)
    assert place.audit_log.lines == [
        "INFO Principal = User:a proxy is Denied operation = CLUSTER_ACTION from host = unknown"
        " on resource = Cluster:LITERAL:kafka-cluster for request = AuthZEN"
        " with resourceRefCount = 1 based on rule DefaultDeny"
    ]
    assert not place.authorizer.counts


def test_a_removed_token_is_invalid(tmp_path: Path) -> None:
    """It is invalid on open connections, too. Other tokens stay valid."""
    place = Place(tmp_path, cluster_action(PROXY))
    proxy, root = place.caller("proxy"), place.caller("root")
    place.rewrite_tokens(entry("root", ROOT) + entry("new", OTHER))
    apply = place.callers.prepare_reload()
    assert proxy.may_ask_about(OTHER, place.authorizer.current_state())
    apply()
    state = place.authorizer.current_state()
    assert not proxy.may_ask_about(OTHER, state)
    assert not proxy.may_ask_about(PROXY, state)
    assert root.may_ask_about(OTHER, state)
    assert place.callers.identify("proxy.secret", SURFACE) is None
    assert place.may_ask_about("new", OTHER)


def test_an_invalid_file_changes_nothing(tmp_path: Path) -> None:
    """The earlier tokens stay valid."""
    place = Place(tmp_path)
    place.rewrite_tokens(entry("root", ROOT) + "nonsense")
    with pytest.raises(ConfigurationError, match=":2: "):
        place.callers.prepare_reload()
    assert place.may_ask_about("proxy", PROXY)


def test_no_token_is_valid_before_the_text_is_applied(tmp_path: Path) -> None:
    """A worker uses the text that its daemon has in force, even if the file has changed."""
    place = Place(tmp_path)
    place.rewrite_tokens(entry("new", OTHER))
    worker = Callers(place.authorizer, str(place.file))
    assert worker.identify("proxy.secret", SURFACE) is None
    worker.parse(place.callers.text)()
    assert worker.identify("proxy.secret", SURFACE) is not None
    assert worker.identify("new.secret", SURFACE) is None


def test_a_reload_without_a_tokens_file_does_nothing() -> None:
    """Callers stay trusted until a restart."""
    place = Place(None)
    place.callers.prepare_reload()()
    assert isinstance(place.callers.identify(None, SURFACE), Trusted)


def test_callers_never_show_their_tokens(tmp_path: Path) -> None:
    place = Place(tmp_path)
    hash_of_secret = TOKENS.split()[1]
    for shown in (repr(place.caller("proxy")), repr(place.callers), repr(vars(place.callers))):
        assert "secret" not in shown
        assert hash_of_secret not in shown
