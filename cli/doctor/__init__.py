"""`authorizerd doctor`: finds what would hinder the daemon on this machine."""
