"""Decode bytes: UTF-8, byte order marks, legacy encodings recognized by their text. Binary files are refused."""

import re
from collections.abc import Mapping

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import NO_METADATA
from leanrag_engine.core.text.word_lists import read_words

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_MAGICS = (
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an Office file"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "an SQLite database"),
    (b"{\\rtf", "an RTF document"),
)
_CONTROLS = bytes(sorted({*range(32)} - {8, 9, 10, 11, 12, 13, 27}))

_JAPANESE = re.compile(rb"\x1b\$[@B]")  # Where Japanese begins in ISO-2022-JP, whose bytes are all ASCII
SUPERSETS = {"shift_jis": "cp932", "gb2312": "gb18030"}
_WESTERN = re.compile("[ÄÇÉÖÜßàáâäçèéêëìíîïñòóôöùúûüœ]ß?|[€«»“”„‘’–—…§°¿¡]+")
_WESTERN_WORDS = read_words("language", "western")


_HIGH_BYTES = 8  # Fewer non-ASCII bytes say nothing of an encoding, except beside words of a western language
_EVIDENCE = 1 << 16  # Bytes of lines with non-ASCII characters that are examined
_CONFIDENCE = 0.08
"""Least confidence of chardet. Of 204 short texts in 20 languages and 26 encodings it names 201 rightly, with 0.095 or more."""


def decode(data: bytes, name: str) -> tuple[str, Mapping[str, str]]:
    """Return the characters of ``data``, and metadata that name an encoding other than plain UTF-8. Damaged UTF-8 (few faults among
    many valid sequences, or one in 10,000 bytes) keeps its readable part, with U+FFFD for the rest; a legacy encoding is accepted on
    clear evidence. Otherwise raises :class:`DocumentUnreadable` with the offset of the first wrong byte, and for binary files."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _decode_after_bom(data[len(bom) :], encoding, name)
    _refuse_binary(data, name)
    if is_iso_2022(data):
        return data.decode("iso2022_jp_2"), {"encoding": "iso-2022-jp"}
    try:
        return data.decode("utf-8"), NO_METADATA
    except UnicodeDecodeError as problem:
        return _decode_other(data, name, problem.start)


def has_byte_order_mark(data: bytes) -> bool:
    """Return whether the first bytes of ``data`` name its Unicode encoding."""
    return data.startswith(tuple(bom for bom, _ in _BOMS))


def is_iso_2022(data: bytes) -> bool:
    """Return whether ``data`` is Japanese in ASCII bytes, which is valid UTF-8 as well."""
    return _JAPANESE.search(data) is not None and _decodes(data, "iso2022_jp_2")


def _decode_after_bom(data: bytes, encoding: str, name: str) -> tuple[str, Mapping[str, str]]:
    try:
        return data.decode(encoding), NO_METADATA if encoding == "utf-8" else {"encoding": encoding}
    except UnicodeDecodeError as problem:
        raise DocumentUnreadable(
            f"{name!r} begins with the byte order mark of {encoding}, but byte {problem.start} after it is not {encoding}.",
            "Save it again as UTF-8.",
        ) from problem


def _refuse_binary(data: bytes, name: str) -> None:
    head = data[:8_192]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    kind = next((kind for magic, kind in _MAGICS if head.startswith(magic)), "")
    if kind or 0 in head or controls > 0.02 * len(head):
        raise DocumentUnreadable(
            f"{name!r} is not text as its name says: {f'it begins like {kind}' if kind else 'it is binary'}.",
            "Give it the suffix of its real kind if that is supported, or leave it out.",
        )


def _decode_other(data: bytes, name: str, at: int) -> tuple[str, Mapping[str, str]]:
    replaced = data.decode("utf-8", "replace")
    faults = replaced.count("\ufffd")
    note = f"utf-8; invalid bytes in {faults} places became U+FFFD, the first at byte {at}"
    # Legacy encodings rarely form valid UTF-8 sequences: 20 of them for each fault mean UTF-8.
    valid = sum(map(len, re.findall("[^\x00-\x7f\ufffd]+", replaced)))
    if valid >= 20 * faults:
        return replaced, {"encoding": note}
    if encoding := _legacy_encoding(data):
        return data.decode(encoding), {"encoding": encoding}
    if faults * 10_000 <= len(data):
        return replaced, {"encoding": note}
    raise DocumentUnreadable(
        f"{name!r} is not valid UTF-8: byte {at} is 0x{data[at]:02x}, and its other encoding cannot be recognized.",
        "Save it as UTF-8.",
    )


def _legacy_encoding(data: bytes) -> str:
    """Return the encoding that makes readable text of all of ``data``; "" without clear evidence."""
    import chardet  # noqa: PLC0415 - only files that are not UTF-8 pay for it

    evidence = _evidence(data)
    if len(evidence) - len(evidence.decode("ascii", "ignore")) < _HIGH_BYTES:
        return "windows-1252" if _is_western(evidence) else ""
    found = chardet.detect(evidence)
    encoding = (found["encoding"] or "").lower()
    encoding = SUPERSETS.get(encoding, encoding)
    if encoding and evidence.decode(encoding, "replace") == evidence.decode("windows-1252", "replace"):
        encoding = "windows-1252"  # as are the ISO-8859s of western Europe, but for signs
    return encoding if encoding and found["confidence"] >= _CONFIDENCE and _decodes(data, encoding) else ""


def _is_western(data: bytes) -> bool:
    """Return whether in cp1252 all non-ASCII characters are usual, letters among them alone, as in no other alphabet, and one word is
    a frequent one of a language that needs no more than these."""
    text = data.decode("cp1252", "replace")
    usual = all(_WESTERN.fullmatch(each) for each in re.findall(r"[^\x00-\x7f]+", text))
    return usual and not _WESTERN_WORDS.isdisjoint(text.lower().split())


def _evidence(data: bytes) -> bytes:
    """Return the first 64 kB of lines that are not ASCII."""
    evidence = bytearray()
    for line in data.splitlines(keepends=True):
        if not line.isascii():
            evidence += line[:_EVIDENCE]
        if len(evidence) >= _EVIDENCE:
            break
    return bytes(evidence)


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
