"""What admin clients do with the daemon, in one vocabulary for all of them."""
