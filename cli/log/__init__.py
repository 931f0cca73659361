"""Commands for a daemon's log: format, check, back up, restore, raise its level."""
