"""The commands ``authorizerd routes …``: files of routes, for gateways."""
