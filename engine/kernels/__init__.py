"""Compiled helpers that every room's kernels share: bytes, spans, bits, doubles, UTF-8. Know nothing of the program."""
