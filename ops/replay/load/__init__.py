"""``replay load``: send recorded questions to a running daemon, on the recorded schedule."""
