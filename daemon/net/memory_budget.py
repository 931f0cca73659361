"""The room that one endpoint has for requests and answers, shared out among its connections.

Law: what all connections hold together stays under the endpoint's bound. Room is taken for what
has come, not for what was announced, and nobody waits for any: who finds none is refused, so that
those who have some cannot be held up by those who want more. One answer may pass the bound.

Source: Kafka's queued.max.request.bytes, which makes its listeners wait instead (KIP-72).
"""

from __future__ import annotations

from typing import Final

from authorizerd.config.bounds import FREE_BYTES


class RequestRoom:
    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.bytes_held = 0


class Share:
    """What one connection holds; its first few bytes are free."""

    __slots__ = ("_room", "_taken", "size")

    def __init__(self, room: RequestRoom) -> None:
        self._room = room
        self._taken = 0
        self.size = 0

    @property
    def has_taken(self) -> bool:
        """Whether it holds some of the room, beyond its free bytes."""
        return self._taken > 0

    def cover(self, size: int) -> bool:
        """Hold ``size`` bytes from now on, if there is room; else go on to hold as many as before.

        To hold fewer there always is.
        """
        return self._hold(size, self._room.bytes_max)

    def cover_answer(self, size: int) -> bool:
        """Hold as many bytes more, if there is any room at all: one answer is let past the bound.

        Else what is larger than the whole room could never be answered.
        """
        return self._hold(self.size + size, self._room.bytes_max + size)

    def _hold(self, size: int, bytes_max: int) -> bool:
        taken = size - FREE_BYTES if size > FREE_BYTES else 0
        more = taken - self._taken
        if more:
            room = self._room
            if more > 0 and room.bytes_held + more > bytes_max:
                return False
            room.bytes_held += more
            self._taken = taken
        self.size = size
        return True
