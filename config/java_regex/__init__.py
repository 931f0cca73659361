"""Java's regular expressions, translated to those of RE2.

``translation`` parses a pattern as ``java.util.regex.Pattern`` does, and writes one for RE2.
``replacement`` does the same for the second argument of ``String.replaceAll``.
"""
