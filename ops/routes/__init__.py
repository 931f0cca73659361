"""Presets: the routes of known products, which ``authorizerd routes preset`` prints."""
