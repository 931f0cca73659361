"""The command `authorizerd`."""
