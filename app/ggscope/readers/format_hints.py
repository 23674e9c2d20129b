"""Name the kind of a file that no reader takes, for the error message."""

import csv
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ggscope.readers.api import ZSTD
from ggscope.readers.closed_formats import (
    ClosedFormat,
    closed_format,
    format_by_name,
    remedy_of,
)
from ggscope.readers.common.packed_text import unpacked_head
from ggscope.readers.source import Source

_UNREAD = " in a form that no reader knows"
_GZIP = b"\x1f\x8b"
_MAGIC = (
    (b"GGUF", "a GGUF model file"),
    (b"ggjt", "an old ggml model file, not a trace"),
    (b"lmgg", "an old ggml model file, not a trace"),
    (b"\x7fELF", "an ELF program or library"),
    (b"MZ", "a Windows program or library"),
    (b"\xcf\xfa\xed\xfe", "a macOS program or library"),
    (b"\xca\xfe\xba\xbe", "a macOS program or Java class"),
    (b"\xfd7zXZ\x00", "an xz archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"\x80\x04\x95", "a Python pickle"),
)
_ARCHIVES = (
    ClosedFormat(
        kind="a gzip archive",
        hint="Unpack it first: ",
        command="gzip -dc {file} > {stem}.unpacked",
        heads=(re.compile(re.escape(_GZIP)),),
        suffixes=(".gz",),
    ),
    ClosedFormat(
        kind="a zstd archive",
        hint="Unpack it first: ",
        command="zstd -dc {file} > {stem}.unpacked",
        heads=(re.compile(re.escape(ZSTD)),),
        suffixes=(".zst",),
    ),
)
"""Readers of text take plain files alone."""
_JSON_KEYS = (
    ({"traceEvents"}, "a Chrome trace without a whole event"),
    ({"ph", "name"}, "a list of Chrome trace events, none of them whole"),
    ({"ph", "ts"}, "a list of Chrome trace events, none of them whole"),
    ({"profiles", "shared"}, "a speedscope profile without a sample or event"),
    ({"profiler", "records"}, f"a profile of llama.cpp's profiler{_UNREAD}"),
    ({"build_commit", "avg_ts"}, f"the results of llama-bench{_UNREAD}"),
    ({"entries", "metadata"}, "JSON like a token trace whose entries name no op"),
    ({"tensors", "metadata"}, "a memory map in JSON without any offset_start"),
)
_TEXT = (
    (
        r"(?m).*^tensor_(idx|name),",
        "a CSV table of tensors with columns that no reader knows",
    ),
    (
        r"(?m).*(^[^\n]*\bioctl\(\d+|"
        r"^(\[pid +\d+\] |\d+ +)?([\d:.]+ +)?[a-z]\w*\([^\n]*\) += (-?\d|0x|\?))",
        "the output of strace without times, which its option -tt writes",
    ),
    (
        r"(?m).*(^[^\n]*(→|←)\s*u(ret)?probe:|^Attaching \d+ probes?|^@\w*\[[^\n]*\]:)",
        f"the output of bpftrace{_UNREAD}",
    ),
    (
        r"(?m)(# ========\n# captured on|"
        r"\S[^\n]*?\s\d+(/\d+)?\s+(\[\d+\]\s+)?\d+\.\d+:\s+(\d+\s+)?[\w:-]+:\s*$)",
        "the output of perf script without call stacks; record with perf record -g",
    ),
    (
        r"(?m).*^(build_info: |system_info: |srv +\w|slot +\w|llama_model_loader: "
        r"|llama_perf|load_tensors: |[\d.]+ [DIWE] (srv|slot|log_info|llama|node|##))",
        f"a log of llama.cpp{_UNREAD}",
    ),
    (r"([^;\n]+;)+[^;\n]* \d+\n", "folded stacks of a flame graph"),
    (
        r"\s*((blk\.\d+\.|token_embd|output)[\w.]*(\n|$)){3}",
        "a list of tensor names without the records that they belong to",
    ),
    (r"\s*(<!doctype html|<html)", "an HTML page"),
    (r"\s*<\?xml", "an XML file"),
    (r"#!", "a script"),
)
_FIRST_KEYS = re.compile(rb'"([A-Za-z_]\w{0,40})"\s*:')


_IMATRIX = re.compile(rb".\0\0\0.\0\0\0(blk\.\d+\.|output|token_embd)", re.DOTALL)
_LONGEST = 60
_MAX_UNPACKED = 1 << 16


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a file looks like.

    Attributes
    ----------
    is_known : whether its kind has a name.
    remedy : what makes it openable; "" = nothing is known.
    command : that of the remedy, for a shell.
    """

    sentence: str
    is_known: bool
    remedy: str = ""
    command: str = ""

    @property
    def text(self) -> str:
        """What it looks like and what to do."""
        return f"{self.sentence} {self.remedy}".rstrip()


def likeness(head: bytes, path: Path | None = None) -> Likeness:
    """Return what a file with this head, and perhaps this name, looks like."""
    for archive in _ARCHIVES:
        if archive.heads[0].match(head):
            return _closed(_packed(archive, head), path)
    if known := closed_format(head):
        return _closed(known, path)
    for magic, text in _MAGIC:
        if head.startswith(magic):
            return Likeness(f"It looks like {text}.", True)
    if not head.strip(b"\0"):
        return Likeness(f"Its first {len(head):,} bytes are zeros.", False)
    if path is not None and (known := format_by_name(path.name, is_text=is_text(head))):
        return _closed(known, path)
    for guess in (_safetensors, _imatrix, _known_json, _known_text):
        if kind := guess(head):
            return Likeness(f"It looks like {kind}.", True)
    if kind := _other_json(head) or _other_text(head):
        return Likeness(f"It is {kind}.", False)
    begins = head[:16].hex(" ").upper()
    return Likeness(f"It is binary data that begins with {begins}.", False)


def _closed(known: ClosedFormat, path: Path | None) -> Likeness:
    remedy = remedy_of(known, path)
    sentence = f"It looks like {known.kind}."
    return Likeness(sentence, True, remedy.sentence, remedy.command)


def is_text(head: bytes) -> bool:
    """Return whether a file with this head is text."""
    if b"\0" in head:
        return False
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    # The head may end in the middle of a character.
    broken = text[:-1].count("\ufffd")
    odd = sum(1 for c in text[:4096] if ord(c) < 32 and c not in "\t\r\n\x1b\f")
    return broken + odd <= len(text) // 100


def is_all_zero(source: Source, head: bytes) -> bool:
    """Return whether the whole file is zeros; holes of sparse files cost nothing.

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


def _packed(archive: ClosedFormat, head: bytes) -> ClosedFormat:
    """Return an archive with what it holds, where that has a name."""
    inner = unpacked_head(head, _MAX_UNPACKED) or b""
    if known := closed_format(inner):
        kind = f"{archive.kind} of {known.kind}"
        if not known.command:  # Unpacking would not help.
            return replace(archive, kind=kind, hint=known.hint, command="")
        return replace(archive, kind=kind)
    # The readers that take the text did not see it.
    kind = (_known_json(inner) or _known_text(inner)).removesuffix(_UNREAD)
    if not kind:
        return archive
    # The reader of Chrome traces did see it, and refused it.
    hint, command = (
        ("", "") if "Chrome trace" in kind else (archive.hint, archive.command)
    )
    return replace(
        archive,
        kind=f"{archive.kind} of {kind}",
        hint=hint,
        command=command,
    )


def _safetensors(head: bytes) -> str:
    length = int.from_bytes(head[:8], "little")
    is_header = head[8:10] == b'{"' and 2 <= length < 1 << 27
    return "a safetensors model file, not a trace" if is_header else ""


def _known_json(head: bytes) -> str:
    keys = _outer_keys(_json_body(head))
    return next((text for known, text in _JSON_KEYS if known <= keys), "")


def _other_json(head: bytes) -> str:
    body = _json_body(head)
    keys = _outer_keys(body)
    if keys:
        shown = ", ".join(key[:32] for key in sorted(keys)[:6])
        return f"JSON with the keys {shown}, which no reader knows"
    return "JSON without any keys" if body[:1] == b"[" else ""


def _json_body(head: bytes) -> bytes:
    """Return the head from its JSON on; b"" where it is none."""
    body = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return body if body[:1] in (b"{", b"[") else b""


def _outer_keys(body: bytes) -> set[str]:
    """Return the keys of the first JSON object, or of the head where it is cut.

    Outer keys come first in most files; a cut head cannot be parsed as a whole.
    """
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


def _imatrix(head: bytes) -> str:
    is_one = _IMATRIX.match(head) is not None
    return f"an importance matrix (imatrix) of llama.cpp{_UNREAD}" if is_one else ""


def _known_text(head: bytes) -> str:
    if not is_text(head):
        return ""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    flags = re.IGNORECASE | re.DOTALL
    return next((name for kind, name in _TEXT if re.match(kind, text, flags)), "")


def _other_text(head: bytes) -> str:
    if not is_text(head):
        return ""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.strip().splitlines()
    if columns := _columns(lines):
        return f"a CSV table with the columns {columns}, which no reader knows"
    first = " ".join(lines[0].split())[:_LONGEST] if lines else ""
    return f"text that begins “{first}”" if first else "blank text"


def _columns(lines: list[str]) -> str:
    """Return the first columns of a table in CSV; "" where it is none."""
    if len(lines) < 2 or not lines[0].count(","):
        return ""
    head, *rows = csv.reader(lines[:2])
    are_names = all(re.fullmatch(r"[A-Za-z_][\w ./()%-]*", name) for name in head)
    if not are_names or not rows or len(rows[0]) != len(head):
        return ""
    shown = ", ".join(name[:32] for name in head[:6])
    return f"{shown} …" if len(head) > 6 else shown
