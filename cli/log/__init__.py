"""Commands about the log of a daemon: format, check, back up, restore, raise its level."""
