"""The command ``authorizerd test``: policy tests, assertions about access in YAML files."""
