"""Received data, split into frames."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import Frames, frame, frame_chunks, holds_frame

some_examples = settings(max_examples=40)
BYTES_MAX = 1000


def frames_of(chunks: list[bytes]) -> list[bytes]:
    frames = Frames()
    found: list[bytes] = []
    for chunk in chunks:
        frames.receive_data(chunk)
        while (each := frames.next(BYTES_MAX)) is not None:
            found.append(bytes(each))
    return found


@some_examples
@given(contents=st.lists(st.binary(max_size=40), max_size=5), places=st.lists(st.integers(0)))
def test_frames_do_not_depend_on_the_split(contents: list[bytes], places: list[int]) -> None:
    """A frame may be empty."""
    data = b"".join(frame(content) for content in contents)
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    cut = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert frames_of(cut) == contents
    assert frames_of([data[at : at + 1] for at in range(len(data))]) == contents


def test_unfinished_frame_is_awaited() -> None:
    data = frame(b"abc")
    for size in range(len(data)):
        assert frames_of([data[:size]]) == []
        assert not holds_frame(data[:size])
    assert holds_frame(data)
    assert holds_frame(frame() + b"a")


@pytest.mark.parametrize("size", ["ffffffff", "80000000", "000003e9", "7fffffff"])
def test_impossible_size_is_rejected_at_once(size: str) -> None:
    frames = Frames()
    frames.receive_data(frame(b"first") + bytes.fromhex(size))
    assert frames.next(BYTES_MAX) == bytearray(b"first")
    with pytest.raises(DecodeError, match=r"expected a frame size from 0 to 1000, found -?\d+"):
        frames.next(BYTES_MAX)
    frames.receive_data(frame(b"after"))
    assert frames.next(BYTES_MAX) is None


def test_maximum_size_is_accepted() -> None:
    assert frames_of([frame(bytes(BYTES_MAX))]) == [bytes(BYTES_MAX)]


def test_large_frame_is_not_copied() -> None:
    """The buffer itself is returned, and the data after the frame moves."""
    frames = Frames()
    gathered = frames._buffer
    frames.receive_data(frame(bytes(900)) + frame(b"next"))
    assert frames.next(BYTES_MAX) is gathered
    assert bytes(gathered) == bytes(900)
    assert frames.next(BYTES_MAX) == bytearray(b"next")


def test_small_frames_do_not_move_the_data_after_them() -> None:
    frames = Frames()
    gathered = frames._buffer
    frames.receive_data(frame(b"first") + frame(bytes(900)))
    assert frames.next(BYTES_MAX) == bytearray(b"first")
    assert frames._buffer is gathered


@some_examples
@given(head=st.binary(max_size=9), body=st.lists(st.binary(max_size=9), max_size=4))
def test_small_frame_is_one_chunk(head: bytes, body: list[bytes]) -> None:
    assert frame_chunks(head, body) == [frame(head, *body)]


def test_large_frame_is_not_joined() -> None:
    body: list[bytes | bytearray] = [bytes(40_000), bytearray(40_000)]
    chunks = frame_chunks(b"head", body)
    assert b"".join(chunks) == frame(b"head", *body)
    assert chunks[1] is body[0]
    assert chunks[2] is body[1]


def test_answer_of_an_http_server_is_named() -> None:
    frames = Frames()
    frames.receive_data(b"HTTP/1.1 400 Bad Request")
    with pytest.raises(DecodeError, match="found 1213486160, which is the text HTTP: this is an H"):
        frames.next(1000)
