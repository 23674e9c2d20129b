"""Name what a file is that no reader takes: only for the message to people."""

import json
import re

from ggscope.readers.source import Source

_NOT_YET = "this version does not read it yet"
_MAGIC = (
    (b"GGUF", "a GGUF model file"),
    (b"ggjt", "an old ggml model file, not a trace"),
    (b"lmgg", "an old ggml model file, not a trace"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
    (b"\xca\xfe\xba\xbe", "a macOS program or Java class"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"PERFILE2", "a Linux perf recording"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\xff\xfe", "text in UTF-16; save it as UTF-8 first"),
    (b"\xfe\xff", "text in UTF-16; save it as UTF-8 first"),
)
_JSON_KEYS = (
    ({"traceEvents"}, f"a Chrome trace; {_NOT_YET}"),
    ({"entries", "metadata"}, "JSON like a token trace whose entries name no op"),
    ({"tensors", "metadata"}, "a memory map in JSON without any offset_start"),
    ({"op_id", "ts"}, f"a CUDA call trace in JSON lines; {_NOT_YET}"),
    ({"ts", "event_id"}, f"a CUDA call trace in JSON lines; {_NOT_YET}"),
    ({"ts", "pid"}, f"a CUDA call trace in JSON lines; {_NOT_YET}"),
)
_TEXT = (
    (
        r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d{9}\s",
        f"the output of blkparse; {_NOT_YET}",
    ),
    (
        r"(?m).*^tensor_(idx|name),",
        "a table of tensors in CSV with columns that no reader knows",
    ),
    (r"(?m).*^[^\n]*\bioctl\(\d+", f"the output of strace; {_NOT_YET}"),
    (r"(?m).*^[^\n]*physical_offset", f"the output of filefrag; {_NOT_YET}"),
    (
        r"\s*((blk\.\d+\.|token_embd|output)[\w.]*(\n|$)){3}",
        "a list of tensor names; nothing in it says which records it speaks of",
    ),
    (r"\s*(<!doctype html|<html)", "an HTML page"),
    (r"\s*<\?xml", "an XML file"),
    (r"#!", "a script"),
)
_FIRST_KEYS = re.compile(rb'"([A-Za-z_]\w{0,40})"\s*:')


def describe(head: bytes) -> str:
    """Return a sentence on what a file with this head looks like."""
    for magic, text in _MAGIC:
        if head.startswith(magic):
            return f"It looks like {text}."
    if not head.strip(b"\0"):
        return f"Its first {len(head):,} bytes are zeros."
    for guess in (_safetensors, _json, _text):
        found = guess(head)
        if found:
            return f"It looks like {found}."
    return "It is binary data of an unknown kind."


def is_all_zero(source: Source, head: bytes) -> bool:
    """Tell whether the whole file is zeros; holes of sparse files cost nothing.

    Raises TruncatedError where it was cut since it was opened.
    """
    source.read(source.size - 1, 1)
    if head.strip(b"\0"):
        return False
    return not any(
        block.any()
        for begin, end in source.data_extents()
        for _, block in source.blocks(begin, end)
    )


def _safetensors(head: bytes) -> str:
    length = int.from_bytes(head[:8], "little")
    is_header = head[8:10] == b'{"' and 2 <= length < 1 << 27
    return "a safetensors model file, not a trace" if is_header else ""


def _json(head: bytes) -> str:
    body = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if body[:1] not in (b"{", b"["):
        return ""
    # Outer keys come first in most files; a cut head cannot be parsed as a whole.
    keys = _outer_keys(body)
    for known, text in _JSON_KEYS:
        if known <= keys:
            return text
    shown = ", ".join(key[:32] for key in sorted(keys)[:6])
    if not keys:
        return "JSON without any keys" if body[:1] == b"[" else ""
    return f"JSON with the keys {shown}, which no reader knows"


def _outer_keys(body: bytes) -> set[str]:
    """Return the keys of the first JSON object, or of the head where it is cut."""
    text = body.decode("utf-8", "replace")
    begin = text.find("{")
    if begin >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError):
            pass
        else:
            return set(value) if isinstance(value, dict) else set()
    return {key.decode() for key in _FIRST_KEYS.findall(body)}


def _text(head: bytes) -> str:
    if b"\0" in head:
        return ""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    # The head may end in the middle of a character.
    broken = text[:-1].count("\ufffd")
    odd = sum(1 for c in text[:4096] if ord(c) < 32 and c not in "\t\r\n\x1b\f")
    if broken + odd > len(text) // 100:
        return ""
    for pattern, name in _TEXT:
        if re.match(pattern, text, re.IGNORECASE | re.DOTALL):
            return name
    first = " ".join(text.strip().split("\n", 1)[0].split())[:60]
    return f"text that begins “{first}”" if first else "blank text"
