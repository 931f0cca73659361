"""The rights of callers: tokens, certificates, authorizerd.callers.* and super users."""

import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from authorizerd.config.errors import ConfigurationError
from authorizerd.daemon.decisions.callers import Caller, Callers, Trusted
from authorizerd.daemon.decisions.token_file import FILE_BYTES_MAX, read_tokens
from authorizerd.daemon.errors import ForbiddenError, StartError
from authorizerd.protocol.http.rights import (
    ACLS,
    DECISIONS,
    EXPLANATIONS,
    HISTORIES,
    OWN_SEARCHES,
    PAST,
    SEARCHES_OF_ALL,
    Needs,
    Right,
)
from tests.daemon.decision_place import OTHER, PROXY, ROOT, TOKENS, Place, entry, may, settings_of
from tests.support.acls import acl


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def has(caller: Caller, right: Right) -> bool:
    """Return True if the caller has this right, which it needs even for itself."""
    return may(caller, Needs(right, right, ""), caller.principal)


@pytest.mark.parametrize("token", [None, "", "nonsense", "proxy.secret", b"\xff"])
def test_without_a_tokens_file_every_caller_is_trusted(token: str | bytes | None) -> None:
    caller = Place(None).callers.identify(token)
    assert isinstance(caller, Trusted)
    assert may(caller, DECISIONS, PROXY)


@pytest.mark.parametrize(
    "token",
    [None, "", b"", "proxy", "proxy.", "proxy.Secret", "nobody.secret", "proxy.secret\udcff"],
)
def test_tokens_file_makes_callers_need_a_token(token: str | bytes | None, tmp_path: Path) -> None:
    assert Place(tmp_path).callers.identify(token) is None


@pytest.mark.parametrize("token", ["", "proxy.wrong", b"\xff"])
def test_wrong_token_is_refused_despite_a_certificate(token: str | bytes, tmp_path: Path) -> None:
    assert Place(tmp_path).callers.identify(token, certified=ROOT) is None


@pytest.mark.parametrize("right", list(Right))
def test_certificate_gives_a_caller_the_rights_of_its_principal(right: Right, place: Place) -> None:
    place.grant(**{right: PROXY})
    for certified, expected in ((PROXY, True), (ROOT, True), (OTHER, False)):
        caller = place.callers.identify(None, certified=certified)
        assert caller is not None
        assert may(caller, DECISIONS, certified)
        assert has(caller, right) is expected


def test_callers_may_ask_about_themselves_and_super_users_about_all(place: Place) -> None:
    assert place.may_ask_about("proxy", PROXY)
    assert place.may_ask_about("root", OTHER)
    assert not place.may_ask_about("proxy", OTHER)
    assert not place.may_ask_about("proxy", ROOT)


@pytest.mark.parametrize("right", list(Right))
def test_no_right_implies_another(right: Right, place: Place) -> None:
    """Each is given to exactly the principals that its own key lists, as in super.users."""
    place.grant(**{right: f"User:x; {PROXY} ;{OTHER}x"})
    assert {each for each in Right if has(place.caller("proxy"), each)} == {right}
    assert not any(has(place.caller("other"), each) for each in Right)
    assert all(has(place.caller("root"), each) for each in Right)


@pytest.mark.parametrize(
    ("right", "more"),
    [
        (None, []),
        (Right.ASK, [(DECISIONS, OTHER)]),
        (Right.SEARCH, [
            (OWN_SEARCHES, OTHER), (EXPLANATIONS, PROXY), (EXPLANATIONS, OTHER),
            (SEARCHES_OF_ALL, None),
        ]),
        (Right.READ, [(HISTORIES, PROXY), (HISTORIES, OTHER), (PAST, None), (ACLS, None)]),
    ],
)  # fmt: skip
def test_right_allows_what_its_surfaces_need(
    right: Right | None, more: list[tuple[Needs, str | None]], place: Place
) -> None:
    if right is not None:
        place.grant(**{right: PROXY})
    about_one = DECISIONS, OWN_SEARCHES, EXPLANATIONS, HISTORIES
    asked: list[tuple[Needs, str | None]] = [
        *((needs, principal) for needs in about_one for principal in (PROXY, OTHER)),
        *((needs, None) for needs in (SEARCHES_OF_ALL, PAST, ACLS)),
    ]
    allowed = [(DECISIONS, PROXY), (OWN_SEARCHES, PROXY), *more]
    caller = place.caller("proxy")
    assert [each for each in asked if may(caller, *each)] == sorted(allowed, key=asked.index)


def test_refusal_names_the_key_to_set(tmp_path: Path) -> None:
    caller = Place(tmp_path).caller("proxy")
    with pytest.raises(ForbiddenError) as refused:
        caller.check(DECISIONS, OTHER)
    text = f"{PROXY} may not ask about others: authorizerd.callers.ask does not list it"
    assert str(refused.value) == text


def test_acls_give_no_right(tmp_path: Path) -> None:
    """Neither CLUSTER_ACTION, which is a right of brokers, nor any other operation."""
    rights = [acl(PROXY, each, cluster=True) for each in ("CLUSTER_ACTION", "DESCRIBE", "ALL")]
    place = Place(tmp_path, *rights)
    place.authorizer.reconfigure({"allow.everyone.if.no.acl.found": "true"})
    assert not any(has(place.caller("proxy"), each) for each in Right)


def test_reload_holds_for_known_callers_at_once(place: Place) -> None:
    caller, root = place.caller("proxy"), place.caller("root")
    for right in Right:
        place.grant(**{right: PROXY})
        assert has(caller, right)
        place.grant()
        assert not has(caller, right)
    settings = settings_of(ask=PROXY)
    place.callers.reconfigure(replace(settings, super_users=frozenset({OTHER})))
    assert [may(each, DECISIONS, "User:x") for each in (caller, root)] == [True, False]


def test_rights_do_not_depend_on_the_acls(tmp_path: Path) -> None:
    """So they are known before the ACLs are loaded."""
    place = Place(tmp_path, loaded=False)
    place.grant(ask=PROXY)
    assert place.may_ask_about("root", OTHER)
    assert place.may_ask_about("proxy", OTHER)
    assert not place.may_ask_about("other", PROXY)


def test_nobody_has_a_right_before_settings_are_applied(place: Place) -> None:
    caller = Callers(str(place.file)).identify(None, certified=ROOT)
    assert caller is not None
    assert not any(has(caller, each) for each in Right)


def test_a_removed_token_is_invalid(place: Place) -> None:
    """It is invalid on open connections, too. Other tokens stay valid."""
    place.grant(ask=PROXY)
    proxy, root = place.caller("proxy"), place.caller("root")
    place.rewrite_tokens(entry("root", ROOT) + entry("new", OTHER))
    apply = place.callers.prepare_reload()
    assert may(proxy, DECISIONS, OTHER)
    apply()
    assert not may(proxy, DECISIONS, OTHER)
    assert not may(proxy, DECISIONS, PROXY)
    assert may(root, DECISIONS, OTHER)
    assert place.callers.identify("proxy.secret") is None
    assert place.may_ask_about("new", OTHER)


def test_file_without_tokens_is_named(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.rewrite_tokens("# none\n")
    apply = place.callers.prepare_reload()
    assert not caplog.messages
    apply()
    assert caplog.messages == [f"{place.file}: it has no token, so every token is refused"]


def test_an_invalid_file_changes_nothing(place: Place) -> None:
    """The earlier tokens stay valid."""
    place.rewrite_tokens(entry("root", ROOT) + "nonsense")
    with pytest.raises(ConfigurationError, match=":2: "):
        place.callers.prepare_reload()
    assert place.may_ask_about("proxy", PROXY)


def test_no_token_is_valid_before_the_text_is_applied(place: Place) -> None:
    """A worker uses the text that its daemon has in force, even if the file has changed."""
    place.rewrite_tokens(entry("new", OTHER))
    worker = Callers(str(place.file))
    assert worker.identify("proxy.secret") is None
    worker.parse(place.callers.text)()
    assert worker.identify("proxy.secret") is not None
    assert worker.identify("new.secret") is None


def test_a_reload_without_a_tokens_file_does_nothing() -> None:
    """Callers stay trusted until a restart."""
    place = Place(None)
    place.callers.prepare_reload()()
    assert isinstance(place.callers.identify(None), Trusted)


def test_callers_never_show_their_tokens(place: Place) -> None:
    hash_of_secret = TOKENS.split()[1]
    for shown in (repr(place.caller("proxy")), repr(place.callers), repr(vars(place.callers))):
        assert "secret" not in shown
        assert hash_of_secret not in shown


LINE = f"a {sha256(b'secret').hexdigest()} User:ä\n".encode()


def refusal(path: Path) -> str:
    with pytest.raises(StartError) as error:
        read_tokens(str(path))
    return str(error.value)


def test_a_file_that_others_can_read_is_accepted(tmp_path: Path) -> None:
    """It contains only hashes."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE)
    path.chmod(0o664)
    (tmp_path / "link").symlink_to(path)
    token = read_tokens(str(tmp_path / "link")).find(b"a.secret")
    assert token is not None
    assert token.principal == "User:ä"


def test_a_file_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    """Otherwise anyone could add a super user's token."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE)
    path.chmod(0o646)
    assert refusal(path) == (
        f"authorizerd.tokens.file: {path}: it is writable by all users (chmod o-w)"
    )


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    """Opening a pipe without a writer would block."""
    assert refusal(tmp_path / "none").endswith(
        ": No such file or directory: create it with a first token:"
        f" `authorizerd token --principal Type:name --append {tmp_path / 'none'}`"
    )
    assert refusal(tmp_path).endswith(": Is a directory")
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").endswith(": not a file")


def test_an_unreadable_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """The file has a line that is not UTF-8, or is too long as a whole."""
    path = tmp_path / "tokens"
    path.write_bytes(LINE * 2 + b"b\xff\n")
    assert refusal(path) == f"authorizerd.tokens.file: {path}:3: expected UTF-8 text"
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    reason = f"expected at most {FILE_BYTES_MAX} bytes"
    assert refusal(path) == f"authorizerd.tokens.file: {path}: {reason}"
    path.write_bytes(b"#" * FILE_BYTES_MAX)
    assert len(read_tokens(str(path))) == 0
