"""Count how often other tasks run while something works, to test that it does not hold the loop."""

import trio


class Turns:
    """The turns that ``run``, which only lets other tasks run, has had so far."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        """Count until it is cancelled."""
        while True:
            await trio.lowlevel.checkpoint()
            self.count += 1
