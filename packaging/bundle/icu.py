"""Cuts the data of ICU, which Qt links to, down to what Qt asks it for: sorting.

31 of the 38 MB of ICU are tables: names of currencies, units and zones, converters of
old encodings, dictionaries of breaks. Qt has its own for all of these and asks ICU for
the order of words only. How the data is laid out: icu/source/common/ucmndata.h.
"""

import struct
import subprocess
import tempfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_COMMON = (
    "root.res", "pool.res", "res_index.res", "icuver.res", "icustd.res",
    "supplementalData.res", "likelySubtags.res", "keyTypeData.res",
    "numberingSystems.res", "metadata.res", "timezoneTypes.res", "zoneinfo64.res",
    "plurals.res", "cnvalias.icu", "ulayout.icu", "uemoji.icu",
)  # fmt: skip
_ASSEMBLER = """
    .section .rodata
    .balign 4096
    .globl {symbol}
    .type {symbol}, %object
{symbol}:
    .incbin "{data}"
    .size {symbol}, . - {symbol}
    .section .note.GNU-stack,"",%progbits
"""


def is_kept(name: str) -> bool:
    """Return whether a table is kept; `name` is without that of the package."""
    return name.startswith("coll/") or name.endswith(".nrm") or name in _COMMON


def trim(library: Path) -> int:
    """Replace libicudata by one with fewer tables; return the bytes that were saved."""
    before = library.stat().st_size
    with library.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        symbol = next(s for s in table.iter_symbols() if s.name.startswith("icudt"))
        file.seek(next(elf.address_offsets(symbol["st_value"])))
        data = file.read(symbol["st_size"])
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        tag = next(dynamic.iter_tags("DT_SONAME"))
        soname = tag.soname  # type: ignore[attr-defined]  # which pyelftools adds
    with tempfile.TemporaryDirectory() as folder:
        raw, source = Path(folder, "icu.dat"), Path(folder, "icu.S")
        raw.write_bytes(trimmed(data))
        source.write_text(_ASSEMBLER.format(symbol=symbol.name, data=raw))
        subprocess.run(
            ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", str(source),
             "-o", str(library)],
            check=True,
        )  # fmt: skip
    return before - library.stat().st_size


def trimmed(data: bytes) -> bytes:
    """Return a package of ICU's data with the tables that `is_kept` names.

    A header, whose length it begins with; the number of tables; for each, where its
    name and its bytes begin, from the end of the header; names; bytes.
    """
    (head,) = struct.unpack_from("<H", data)
    if data[2:4] != b"\xda\x27" or data[12:16] != b"CmnD":
        raise ValueError("this is no data of ICU, or another order of bytes")
    (count,) = struct.unpack_from("<I", data, head)
    table = list(struct.iter_unpack("<II", data[head + 4 : head + 4 + 8 * count]))
    ends = [begin for _, begin in table[1:]] + [len(data) - head]
    parts = []
    for (at, begin), end in zip(table, ends, strict=True):
        name = data[head + at : data.index(b"\0", head + at)]
        if is_kept(name.decode().partition("/")[2]):
            parts.append((name + b"\0", data[head + begin : head + end]))
    names = b"".join(name for name, _ in parts)
    at = 4 + 8 * len(parts)
    begin = -(-(at + len(names)) // 16) * 16
    toc, body = [struct.pack("<I", len(parts))], []
    place = begin
    for name, content in parts:
        toc.append(struct.pack("<II", at, place))
        at += len(name)
        padded = content.ljust(-(-len(content) // 16) * 16, b"\0")
        body.append(padded)
        place += len(padded)
    head_of_body = (b"".join(toc) + names).ljust(begin, b"\xaa")
    return data[:head] + head_of_body + b"".join(body)
