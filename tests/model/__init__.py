"""Compare the whole daemon, on a failing disk and network, with a simple model in virtual time."""
