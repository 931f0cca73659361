"""Java's regular expressions, translated to those of Python's ``re``.

``translation`` parses a pattern as ``java.util.regex.Pattern`` does, and writes one for ``re``.
``replacement`` does the same for the second argument of ``String.replaceAll``.

**Invariant:** a translated pattern matches what it matches in Java. A pattern that cannot be
translated is an InvalidValueError that names the construct and its position.
"""
