"""Reader of Mach-O files: libraries, symbols, and rights in the signature.

A file for several machines holds one such file for each. Numbers of the heads are
little-endian on every machine that ggml runs on; those of the signature and of the
list of machines are big-endian.
"""

import mmap
import plistlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers.expat import ExpatError

from ggscope_capture.regular_file import open_for_reading

MAGIC, MAGIC_FAT, MAGIC_FAT_64 = 0xFEEDFACF, 0xCAFEBABE, 0xCAFEBABF
MACHINES = {0x01000007: "x86_64", 0x0100000C: "arm64"}
EXECUTABLE, LIBRARY, BUNDLE = 2, 6, 8
_FILE_TYPES = (EXECUTABLE, LIBRARY, BUNDLE)
_SEGMENT, _SYMTAB, _RPATH, _SIGNATURE = 0x19, 0x2, 0x8000001C, 0x1D
_LIBRARIES = (0xC, 0x80000018, 0x8000001F)  # needed, weakly, and exported again
_DIRECTORY, _ENTITLEMENTS = 0xFADE0C02, 0xFADE7171
_HARDENED, _RESTRICTED, _VALIDATES = 0x10000, 0x800, 0x2000
_ALLOWS_DYLD = "com.apple.security.cs.allow-dyld-environment-variables"
_ALLOWS_LIBRARIES = "com.apple.security.cs.disable-library-validation"
_MAX_MACHINES = 64
_EXTERNAL, _TYPE, _DEBUGGING, _DEFINED = 1, 0xE, 0xE0, 0xE


class MachoError(Exception):
    """The file is not what its head says; the text says what is wrong."""


class OtherMachineError(MachoError):
    """The file is for other machines only."""


@dataclass(slots=True)
class Macho:
    """What matters of one file, for one machine.

    `defines` and `imports` hold those of the names asked for, without the underscore
    that C's names have.
    """

    path: Path
    machine: str
    file_type: int
    needed: list[str] = field(default_factory=list)
    rpath: list[str] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    has_restricted_segment: bool = False
    signature_flags: int = 0
    entitlements: frozenset[str] = frozenset()

    @property
    def is_hardened(self) -> bool:
        """Whether the hardened runtime is on."""
        return bool(self.signature_flags & _HARDENED)

    @property
    def drops_variables(self) -> bool:
        """Whether the system takes ``DYLD_…`` variables away from it."""
        if self.has_restricted_segment or self.signature_flags & _RESTRICTED:
            return True
        return self.is_hardened and _ALLOWS_DYLD not in self.entitlements

    @property
    def validates_libraries(self) -> bool:
        """Whether it loads libraries of its own maker and of Apple only."""
        asks = self.signature_flags & (_HARDENED | _VALIDATES)
        return bool(asks) and _ALLOWS_LIBRARIES not in self.entitlements


def read(path: Path, machines: Iterable[str], names: Iterable[str]) -> Macho:
    """Read a file for the first of these machines that it is for.

    Raises
    ------
    MachoError
        If it is damaged, or for other machines only.
    OSError
        If it cannot be read.
    """
    with open_for_reading(path, follows_links=True) as handle:
        try:
            with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _read(path, content, list(machines), set(names))
        except (struct.error, ValueError, IndexError) as error:
            raise MachoError(f"{path} is damaged: {error}") from error


def _read(
    path: Path, content: mmap.mmap, machines: list[str], names: set[str]
) -> Macho:
    there = dict(_machines(content))
    machine = next((each for each in machines if each in there), None)
    if machine is None:
        its = ", ".join(sorted(there)) or "other machines"
        raise OtherMachineError(f"built for {its}, not for this machine")
    begin, size = there[machine]
    if begin + size > len(content):
        raise MachoError(f"{path} is truncated")
    file_type, n_commands, commands = struct.unpack_from("<12xIII", content, begin)
    if file_type not in _FILE_TYPES or commands > size:
        raise MachoError(f"{path} is damaged, or neither program nor library")
    image = Macho(path, machine, file_type)
    at, end = begin + 32, begin + 32 + commands
    for _ in range(n_commands):
        kind, length = struct.unpack_from("<II", content, at)
        if length < 8 or at + length > end:
            raise MachoError(f"{path} is damaged: a load command has no end")
        command = content[at : at + length]
        at += length
        if kind in _LIBRARIES:
            image.needed.append(_text(command, *struct.unpack_from("<I", command, 8)))
        elif kind == _RPATH:
            image.rpath.append(_text(command, *struct.unpack_from("<I", command, 8)))
        elif kind == _SEGMENT:
            image.has_restricted_segment |= command[8:24].rstrip(b"\0") == b"__RESTRICT"
        elif kind == _SYMTAB:
            _symbols(
                image, content, begin, struct.unpack_from("<IIII", command, 8), names
            )
        elif kind == _SIGNATURE:
            offset, length = struct.unpack_from("<II", command, 8)
            _signature(image, content[begin + offset : begin + offset + length])
    return image


def _machines(content: mmap.mmap) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the machines that a file is for, and where each one's part lies."""
    (magic,) = struct.unpack_from(">I", content)
    if magic not in (MAGIC_FAT, MAGIC_FAT_64):
        magic, machine = struct.unpack_from("<II", content)
        if magic == MAGIC:
            yield MACHINES.get(machine, f"machine {machine:#x}"), (0, len(content))
        return
    layout = struct.Struct(">I4xQQ8x" if magic == MAGIC_FAT_64 else ">I4xII4x")
    (n,) = struct.unpack_from(">I", content, 4)
    for i in range(min(n, _MAX_MACHINES)):
        machine, offset, size = layout.unpack_from(content, 8 + i * layout.size)
        yield MACHINES.get(machine, f"machine {machine:#x}"), (offset, size)


def _text(command: bytes, offset: int) -> str:
    return command[offset:].split(b"\0", 1)[0].decode("utf-8", "replace")


def _symbols(
    image: Macho,
    content: mmap.mmap,
    begin: int,
    tables: tuple[int, int, int, int],
    names: set[str],
) -> None:
    """Add to `image` the names that it defines and imports."""
    at, n, text_at, text_size = tables
    text = content[begin + text_at : begin + text_at + text_size]
    by_offset = {
        each.start(): name
        for name in names
        for each in re.finditer(re.escape(b"_" + name.encode() + b"\0"), text)
    }
    if not by_offset:
        return
    symbols = content[begin + at : begin + at + 16 * n]
    for place, kind in struct.iter_unpack("<IB11x", symbols):
        if place in by_offset and kind & _EXTERNAL and not kind & _DEBUGGING:
            is_defined = kind & _TYPE == _DEFINED
            (image.defines if is_defined else image.imports).add(by_offset[place])


def _signature(image: Macho, content: bytes) -> None:
    """Add flags and entitlements of a code signature to `image`."""
    if len(content) < 12:
        return
    (n,) = struct.unpack_from(">I", content, 8)
    for i in range(min(n, _MAX_MACHINES)):
        _, offset = struct.unpack_from(">II", content, 12 + 8 * i)
        magic, size = struct.unpack_from(">II", content, offset)
        if magic == _DIRECTORY:
            (flags,) = struct.unpack_from(">I", content, offset + 12)
            image.signature_flags |= flags
        elif magic == _ENTITLEMENTS:
            try:
                rights = plistlib.loads(content[offset + 8 : offset + size])
            except (ValueError, ExpatError) as error:
                raise MachoError(f"{image.path} is damaged: {error}") from error
            if isinstance(rights, dict):
                granted = (key for key, value in rights.items() if value is True)
                image.entitlements = frozenset(granted)
