"""The documentation site, which ``make docs`` builds with MkDocs."""
