"""Compare the actors, over the real log and a failing disk, with a simple model in virtual time."""
