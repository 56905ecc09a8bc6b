"""Strings of JSON text: found, unescaped with a note of how they were spelled, and spelled again that way.

Bytes are passed as addresses (``addresses_of`` says why); every position is compared with the end of
the text, or of the output, before anything is read or written there.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import njit, types

from engine.formats.columns.slot_kernels import NO_ROOM, NOT_REPRESENTABLE
from engine.formats.json.operations import (
    ALWAYS_ESCAPED,
    ASCII_ONLY,
    ENDS_EARLY,
    ENDS_RUN,
    ESCAPED_DELETE,
    ESCAPED_HTML,
    ESCAPED_LINE_SEPARATORS,
    ESCAPED_PAIRS,
    ESCAPED_QUOTES,
    ESCAPED_SLASH,
    LONE_SURROGATE,
    LONG_CONTROLS,
    NOT_ASCII,
    NOT_JSON,
    ODD_ESCAPE,
    R_NO,
    R_YES,
    UPPER_HEX,
)
from engine.kernels.inner import inner
from engine.kernels.memory import load_u8, set_word, store_u8, word
from engine.kernels.types import read_only, writable
from engine.kernels.utf8 import is_utf8

BAD = -1

# An escaped character takes at most this many bytes a byte of its UTF-8.
LONGEST_ESCAPE = 6
ROOM = 64

QUOTE, BACKSLASH = 34, 92


def _classes() -> list[int]:
    classes = [0] * 256
    for byte in range(0x20):
        classes[byte] = ENDS_RUN | ALWAYS_ESCAPED
    for byte in (QUOTE, BACKSLASH):
        classes[byte] = ENDS_RUN | ALWAYS_ESCAPED
    for byte in range(0x80, 0x100):
        classes[byte] = NOT_ASCII
    # Only the first byte of a character tells which trait concerns it.
    for byte in range(0xC0, 0x100):
        classes[byte] |= ASCII_ONLY if byte < 0xF0 else ESCAPED_PAIRS
    classes[0xE2] |= ESCAPED_LINE_SEPARATORS
    classes[0x7F] = ESCAPED_DELETE
    classes[ord("/")] = ESCAPED_SLASH
    for character in "<>&":
        classes[ord(character)] = ESCAPED_HTML
    for character in "='":
        classes[ord(character)] = ESCAPED_QUOTES
    return classes


def _letters() -> tuple[list[int], list[int]]:
    """The letter behind a backslash for each byte, 0 for none; and the byte each letter stands for."""
    letter_of, byte_of = [0] * 256, [0] * 256
    for letter, byte in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
        letter_of[byte], byte_of[letter] = letter, byte
    return letter_of, byte_of


CLASS = np.array(_classes(), np.int64)
LETTER_OF = np.array(_letters()[0], np.uint8)
BYTE_OF = np.array(_letters()[1], np.uint8)
HEX_LOWER = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
HEX_UPPER = np.frombuffer(b"0123456789ABCDEF", np.uint8).copy()


@inner(forceinline=True)
def note_yes(report, traits):
    set_word(report, R_YES, word(report, R_YES) | traits)


@inner(forceinline=True)
def note_no(report, traits):
    set_word(report, R_NO, word(report, R_NO) | traits)


@inner
def find_end(base, at, end):
    """Behind a string's opening quote: (position of the closing one, or BAD; classes of its plain bytes, with ENDS_RUN
    where it has escapes, or the issue)."""
    classes = np.int64(0)
    while at < end:
        byte = load_u8(base + at)
        found = CLASS[byte]
        if found & ENDS_RUN:
            if byte == QUOTE:
                if classes & ESCAPED_LINE_SEPARATORS:
                    classes &= ~np.int64(ESCAPED_LINE_SEPARATORS)
                return at, classes
            if byte != BACKSLASH:
                return np.int64(BAD), np.int64(NOT_JSON)
            at += 1
        classes |= found
        at += 1
    return np.int64(BAD), np.int64(ENDS_EARLY)


@inner
def has_line_separator(base, at, end):
    """Whether U+2028 or U+2029 stands there in UTF-8."""
    while at + 2 < end:
        if load_u8(base + at) == 0xE2 and load_u8(base + at + 1) == 0x80 and load_u8(base + at + 2) & 0xFE == 0xA8:
            return True
        at += 1
    return False


@inner
def check_plain(base, at, stop, classes, report):
    """Notes what a string's plain bytes deny; False where it is not UTF-8."""
    if classes & NOT_ASCII:
        if not is_utf8(base + at, base + stop):
            return False
        if has_line_separator(base, at, stop):
            note_no(report, np.int64(ESCAPED_LINE_SEPARATORS))
    note_no(report, classes & ~np.int64(ENDS_RUN | ALWAYS_ESCAPED | NOT_ASCII))
    return True


@inner
def read_hex(base, at, end):
    """Four hexadecimal digits: (their value or BAD, UPPER_HEX in bit 0 for upper-case letters and bit 1 for lower)."""
    if at + 4 > end:
        return np.int64(BAD), np.int64(0)
    value = np.int64(0)
    letters = np.int64(0)
    for index in range(4):
        byte = np.int64(load_u8(base + at + index))
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 65 <= byte <= 70:
            digit = byte - 55
            letters |= 1
        elif 97 <= byte <= 102:
            digit = byte - 87
            letters |= 2
        else:
            return np.int64(BAD), np.int64(0)
        value = value << 4 | digit
    return value, letters


@inner
def store_utf8(to, point):
    """A code point in UTF-8: the address behind it."""
    if point < 0x80:
        store_u8(to, np.uint8(point))
        return to + 1
    if point < 0x800:
        store_u8(to, np.uint8(0xC0 | point >> 6))
        store_u8(to + 1, np.uint8(0x80 | point & 0x3F))
        return to + 2
    if point < 0x10000:
        store_u8(to, np.uint8(0xE0 | point >> 12))
        store_u8(to + 1, np.uint8(0x80 | point >> 6 & 0x3F))
        store_u8(to + 2, np.uint8(0x80 | point & 0x3F))
        return to + 3
    store_u8(to, np.uint8(0xF0 | point >> 18))
    store_u8(to + 1, np.uint8(0x80 | point >> 12 & 0x3F))
    store_u8(to + 2, np.uint8(0x80 | point >> 6 & 0x3F))
    store_u8(to + 3, np.uint8(0x80 | point & 0x3F))
    return to + 4


@inner
def trait_of(point):
    """The trait by which a character outside ASCII is escaped."""
    if point >= 0x10000:
        return np.int64(ESCAPED_PAIRS)
    return np.int64(ESCAPED_LINE_SEPARATORS if point in (0x2028, 0x2029) else ASCII_ONLY)


@inner
def note_code(point, letters, report):
    """Notes what a hexadecimal escape of a code point shows; the issue where nobody escapes it so."""
    if letters & 1:
        note_yes(report, np.int64(UPPER_HEX))
    if letters & 2:
        note_no(report, np.int64(UPPER_HEX))
    if point >= 0x80:
        note_yes(report, trait_of(point))
        return np.int64(0)
    if point in (8, 12):
        note_yes(report, np.int64(LONG_CONTROLS))
        return np.int64(0)
    if point < 0x20:
        return np.int64(0) if LETTER_OF[point] == 0 else np.int64(ODD_ESCAPE)
    trait = CLASS[point] & (ESCAPED_DELETE | ESCAPED_HTML | ESCAPED_QUOTES)
    note_yes(report, trait)
    return np.int64(0) if trait else np.int64(ODD_ESCAPE)


@inner
def read_code(base, at, end, report):
    """Behind ``\\u``: (code point, -1 for half a pair, or BAD - 1 for no digits; position behind it; issue)."""
    unit, letters = read_hex(base, at, end)
    if unit < 0:
        return np.int64(BAD - 1), at, np.int64(NOT_JSON)
    at += 4
    if unit < 0xD800 or unit > 0xDFFF:
        return unit, at, note_code(unit, letters, report)
    if unit < 0xDC00 and at + 6 <= end and load_u8(base + at) == BACKSLASH and load_u8(base + at + 1) == 117:
        second, more = read_hex(base, at + 2, end)
        if 0xDC00 <= second <= 0xDFFF:
            point = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00)
            return point, at + 6, note_code(point, letters | more, report)
    return np.int64(BAD), at, np.int64(LONE_SURROGATE)


@inner
def unescape(base, at, stop, to, report):
    """The string ``at <= position < stop``, which ``find_end`` found, at the address ``to``: (length or BAD, issue).

    ``to`` has room for as many bytes as the string is long.
    """
    out = to
    issue = np.int64(0)
    while at < stop:
        byte = load_u8(base + at)
        at += 1
        if byte != BACKSLASH:
            store_u8(out, byte)
            out += 1
            continue
        letter = load_u8(base + at)
        at += 1
        if letter == 117:
            point, at, found = read_code(base, at, stop, report)
            if point < BAD:
                return np.int64(BAD), found
            if found != 0 and issue != LONE_SURROGATE:
                issue = found
            if point >= 0:
                out = store_utf8(out, point)
            continue
        plain = BYTE_OF[letter]
        if plain == 0:
            return np.int64(BAD), np.int64(NOT_JSON)
        if letter == 47:
            note_yes(report, np.int64(ESCAPED_SLASH))
        elif letter in (98, 102):
            note_no(report, np.int64(LONG_CONTROLS))
        store_u8(out, plain)
        out += 1
    return out - to, issue


@inner
def write_code(to, unit, traits):
    """``\\u`` and four digits: the address behind them."""
    store_u8(to, np.uint8(BACKSLASH))
    store_u8(to + 1, np.uint8(117))
    for index in range(4):
        digit = unit >> (12 - 4 * index) & 15
        store_u8(to + 2 + index, HEX_UPPER[digit] if traits & UPPER_HEX else HEX_LOWER[digit])
    return to + 6


@inner
def write_escape(to, source, left, traits):
    """The first character at ``source``, of ``left`` bytes, escaped as the traits say, or plain where they don't:
    (address behind it, bytes of it read, 0 where they are not UTF-8)."""
    byte = np.int64(load_u8(source))
    if byte < 0x80:
        letter = LETTER_OF[byte]
        if letter != 0 and not (traits & LONG_CONTROLS and byte in (8, 12)):
            store_u8(to, np.uint8(BACKSLASH))
            store_u8(to + 1, letter)
            return to + 2, np.int64(1)
        return write_code(to, byte, traits), np.int64(1)
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    if size > left:
        return to, np.int64(0)
    point = byte & (0x3F >> (size - 1))
    for index in range(1, size):
        point = point << 6 | np.int64(load_u8(source + index)) & 0x3F
    if traits & trait_of(point) == 0:
        for index in range(size):
            store_u8(to + index, load_u8(source + index))
        return to + size, np.int64(size)
    if point < 0x10000:
        return write_code(to, point, traits), np.int64(size)
    to = write_code(to, 0xD800 + ((point - 0x10000) >> 10), traits)
    return write_code(to, 0xDC00 + ((point - 0x10000) & 0x3FF), traits), np.int64(size)


@inner
def write_text(base, at, limit, source, length, traits):
    """A string in its quotes, as the traits say: the position behind it, or a negative code."""
    escaped = traits | ALWAYS_ESCAPED
    if at + LONGEST_ESCAPE * length + ROOM > limit:
        more = 0
        for place in range(length):
            if CLASS[load_u8(source + place)] & escaped:
                more += 2 * LONGEST_ESCAPE  # of a pair
        if at + length + more + ROOM > limit:
            return np.int64(NO_ROOM)
    to = base + at
    store_u8(to, np.uint8(QUOTE))
    to += 1
    index = np.int64(0)
    while index < length:
        byte = load_u8(source + index)
        if CLASS[byte] & escaped == 0:
            store_u8(to, byte)
            to += 1
            index += 1
            continue
        to, read = write_escape(to, source + index, length - index, traits)
        if read == 0:
            return np.int64(NOT_REPRESENTABLE)
        index += read
    store_u8(to, np.uint8(QUOTE))
    return to + 1 - base


_SPELL = types.int64(writable(types.uint8), read_only(types.uint8), types.int64, types.int64)


@njit(_SPELL, nogil=True, cache=True)
def _spell(out, source, length, traits):
    return write_text(out.ctypes.data, np.int64(0), np.int64(out.shape[0]), source.ctypes.data, length, traits)


def spell(text: str, traits: int) -> bytes:
    """A string in its quotes, as the traits say."""
    source = np.frombuffer(text.encode(errors="surrogatepass") + bytes(8), np.uint8)
    length = len(source) - 8
    out = np.empty(LONGEST_ESCAPE * length + 2 * ROOM, np.uint8)
    size = _spell(out, source, length, traits)
    return out[: max(size, 0)].tobytes()
