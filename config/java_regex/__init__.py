"""Java's regular expressions, translated to those of RE2, which never backtracks.

``translation`` parses a pattern as ``java.util.regex.Pattern`` does, and writes one for RE2.
``replacement`` does the same for the second argument of ``String.replaceAll``.

**Invariant:** a translated pattern matches what it matches in Java, and its time grows linearly
with the text. A pattern that cannot be translated is an InvalidValueError that names the construct
and its position.
"""
