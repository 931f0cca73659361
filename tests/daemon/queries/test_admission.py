"""Callers get their turns one after another, whatever each of them has sent."""

from dataclasses import dataclass

import pytest

from authorizerd.daemon.queries.admission import (
    LISTINGS_MAX,
    RUNNING_MAX,
    WAITING_MAX,
    AdmissionControl,
)


@dataclass(frozen=True)
class Question:
    """``name`` begins with its caller, ``-`` for one that cannot be told apart."""

    name: str
    offset: int = 0
    is_listing: bool = False

    @property
    def caller(self) -> str | None:
        return None if self.name[0] == "-" else self.name[0]


def admitted(*names: str, listing: str = "") -> AdmissionControl[Question]:
    control: AdmissionControl[Question] = AdmissionControl()
    for name in names:
        assert control.admit(Question(name, is_listing=name[0] in listing))
    return control


def run(control: AdmissionControl[Question]) -> list[str]:
    """Return the names in the order in which they begin; each begun one ends before the next."""
    order: list[str] = []
    running: list[Question] = []
    while True:
        while (question := control.begin_next(0)) is not None:
            order.append(question.name)
            running.append(question)
        if not running:
            return order
        control.leave(running.pop(0))


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        ("a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("-1 -2 -3 a1", "-1 a1 -2 -3"),
        ("-1 -2 -3", "-1 -2 -3"),
    ],
)
def test_callers_are_served_in_turn(asked: str, order: str) -> None:
    control = admitted(*asked.split())
    begun = []
    while (question := control.begin_next(0)) is not None:
        begun.append(question.name[0])
    assert len(begun) <= RUNNING_MAX
    assert len(begun) == len(set(begun)) or begun == ["-", "-"]
    assert run(admitted(*asked.split())) == order.split()


def test_one_caller_cannot_take_all_places() -> None:
    control = admitted(*(f"a{number}" for number in range(WAITING_MAX // 2)))
    assert not control.admit(Question("a"))
    assert control.begin_next(0) is not None
    assert not control.admit(Question("a"))
    assert control.admit(Question("b"))


def test_callers_that_cannot_be_told_apart_share_all_places() -> None:
    control = admitted(*("-" for _ in range(WAITING_MAX)))
    assert not control.admit(Question("-"))
    assert not control.admit(Question("a"))
    control.leave(Question("-"))
    assert control.admit(Question("a"))


def test_listing_that_is_read_holds_up_no_question() -> None:
    """It counts until its client has read it, and one caller never has all listings."""
    control: AdmissionControl[Question] = AdmissionControl()
    for caller in "ab":
        for number in range(LISTINGS_MAX // 2):
            listing = Question(f"{caller}{number}", is_listing=True)
            assert control.admit(listing)
            assert control.begin_next(0) == listing
            control.finish(listing)
        assert not control.admit(Question(caller, is_listing=True))
    assert not control.admit(Question("c", is_listing=True))
    assert control.admit(Question("c"))
    control.leave(Question("b0", is_listing=True))
    assert control.admit(Question("c1", is_listing=True))


def test_question_about_a_later_state_lets_others_go_first() -> None:
    control: AdmissionControl[Question] = AdmissionControl()
    for question in (Question("a1", 5), Question("a2", 4), Question("b1", 6)):
        assert control.admit(question)
    assert control.begin_next(3) is None
    assert control.begin_next(4) == Question("a2", 4)
    assert control.begin_next(6) == Question("b1", 6)


def test_caller_that_has_gone_frees_its_place() -> None:
    control = admitted("a1", "a2")
    control.leave(Question("a1"))
    assert run(control) == ["a2"]
