"""The benchmark of authorizerd and its peers: ``make bench``."""
