"""The command ``shell``: the contents of a metadata log as a tree of folders and files."""
