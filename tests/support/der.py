"""Write DER, for names and certificates that no library would write."""


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(digits))) + digits + content
