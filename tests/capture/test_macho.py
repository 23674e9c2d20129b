"""The way into programs of macOS, as far as it can be tried without a Mac.

Mach-O files are written here by the format's rules, and what describes them is asked as
if it ran on a Mac. Where a compiler for macOS is there (`zig`, the package `ziglang`),
the tracer is compiled by it, its file is read, and its walk through the slots of loaded
images is run on this machine, over images that the same compiler made.
"""

import ctypes
import importlib.util
import json
import mmap
import platform
import plistlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from ggscope_capture import doctor, macho
from ggscope_capture.__main__ import main
from ggscope_capture.native import build

ARM, INTEL = 0x0100000C, 0x01000007
DYLD = "DYLD_INSERT_LIBRARIES"
CODES = {"arm64": ARM, "x86_64": INTEL}
TARGETS = {"arm64": "aarch64-macos", "x86_64": "x86_64-macos"}
SLOT_TYPES = (6, 7)
UNTRIED = "has not run on a Mac yet"


def command(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 8)
    return struct.pack("<II", kind, 8 + len(body)) + body


def signature(flags: int, entitlements: Sequence[str]) -> bytes:
    """Return a signature: what it covers, and what it allows."""
    directory = struct.pack(">IIII", 0xFADE0C02, 16, 0x20400, flags)
    allowed = plistlib.dumps(dict.fromkeys(entitlements, True))
    allowed = struct.pack(">II", 0xFADE7171, 8 + len(allowed)) + allowed
    head = struct.pack(
        ">IIIIIII", 0xFADE0CC0, 28 + len(directory) + len(allowed), 2,
        0, 28, 5, 28 + len(directory),
    )  # fmt: skip
    return head + directory + allowed


def image(
    kind: int = macho.EXECUTABLE,
    *,
    machine: int = ARM,
    needed: Sequence[str] = (),
    rpath: Sequence[str] = (),
    defines: Sequence[str] = (),
    imports: Sequence[str] = (),
    flags: int | None = None,
    entitlements: Sequence[str] = (),
    segment: str = "__TEXT",
) -> bytes:
    """Return a Mach-O file."""
    names = b"\0"
    symbols = b""
    for name, is_defined in [(n, True) for n in defines] + [
        (n, False) for n in imports
    ]:
        symbols += struct.pack("<IBBHQ", len(names), 0x0F if is_defined else 1, 0, 0, 0)
        names += b"_" + name.encode() + b"\0"
    signed = b"" if flags is None else signature(flags, entitlements)
    commands = [command(0x19, segment.encode().ljust(64, b"\0"))]
    commands += [
        command(0xC, struct.pack("<IIII", 24, 0, 0, 0) + n.encode() + b"\0")
        for n in needed
    ]
    commands += [
        command(0x8000001C, struct.pack("<I", 12) + n.encode() + b"\0") for n in rpath
    ]
    at = 32 + sum(map(len, commands)) + 24 + (16 if signed else 0)
    n = len(symbols) // 16
    text = at + len(symbols)
    commands.append(command(2, struct.pack("<IIII", at, n, text, len(names))))
    if signed:
        place = struct.pack("<II", text + len(names), len(signed))
        commands.append(command(0x1D, place))
    body = b"".join(commands)
    head = struct.pack(
        "<IIIIIIII", macho.MAGIC, machine, 0, kind, len(commands), len(body), 0, 0
    )
    return head + body + symbols + names + signed


def fat(*parts: tuple[int, bytes]) -> bytes:
    """Return a file for several machines."""
    at = 4096
    head, body = struct.pack(">II", macho.MAGIC_FAT, len(parts)), b""
    for machine, content in parts:
        head += struct.pack(">IIIII", machine, 0, at + len(body), len(content), 12)
        body += content + bytes(-len(content) % 4096)
    return head.ljust(at, b"\0") + body


def program(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.fixture
def on_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")


def linked(folder: Path, **how: object) -> Path:
    """Return a program whose libraries are those of a release."""
    lib = folder / "lib"
    program(lib / "libggml-cpu.dylib", image(6, defines=["ggml_graph_compute"]))
    program(lib / "libggml-base.dylib", image(6, defines=["gguf_init_from_file"]))
    registry = image(
        6, needed=["@rpath/libggml-cpu.dylib"], rpath=["@loader_path"],
        defines=["ggml_backend_load_all_from_path"],
    )  # fmt: skip
    program(lib / "libggml.dylib", registry)
    llama = image(
        6, needed=["@rpath/libggml.dylib", "@loader_path/libggml-base.dylib"],
        rpath=["@loader_path"], defines=["llama_decode"],
        imports=["gguf_init_from_file"],
    )  # fmt: skip
    program(lib / "libllama.dylib", llama)
    content = image(
        needed=["@rpath/libllama.dylib", "/usr/lib/libSystem.B.dylib"],
        rpath=["@executable_path/../lib"], imports=["llama_decode"], **how,
    )  # type: ignore[arg-type]  # fmt: skip
    return program(folder / "bin" / "llama-cli", content)


def answers(report: doctor.Report) -> dict[str, bool | None]:
    return {route.variable: route.works for route in report.routes}


@pytest.mark.usefixtures("on_mac")
def test_linked_libraries_may_be_entered(tmp_path: Path) -> None:
    report = doctor.examine(linked(tmp_path))

    assert report.linkage == "shared"
    assert answers(report) == {"GGML_BACKEND_PATH": False, DYLD: None}
    assert UNTRIED in report.routes[1].why
    assert "whole graphs and begins" in report.routes[1].why


@pytest.mark.usefixtures("on_mac")
def test_backends_that_are_loaded_take_the_tracer(tmp_path: Path) -> None:
    path = linked(tmp_path)
    (tmp_path / "lib" / "libggml.dylib").write_bytes(
        image(6, defines=["ggml_backend_load_all_from_path"])
    )

    report = doctor.examine(path)

    assert report.linkage == "dynamic-backends"
    assert answers(report) == {"GGML_BACKEND_PATH": None, DYLD: None}
    assert all(UNTRIED in route.why for route in report.routes)


@pytest.mark.usefixtures("on_mac")
def test_one_library_is_entered_where_a_call_crosses_into_it(tmp_path: Path) -> None:
    both = ["ggml_graph_compute", "llama_decode", "llama_backend_init"]
    library = program(tmp_path / "libllama.dylib", image(6, defines=both))
    values = {}
    for name in ("llama_backend_init", "llama_decode"):
        content = image(needed=["@loader_path/libllama.dylib"], imports=[name])
        values[name] = doctor.examine(program(tmp_path / "serve", content))

    assert {report.linkage for report in values.values()} == {"one-library"}
    assert answers(values["llama_backend_init"])[DYLD] is None
    assert answers(values["llama_decode"])[DYLD] is False
    assert "no call that the tracer knows" in values["llama_decode"].routes[1].why
    assert answers(doctor.examine(library))[DYLD] is None


@pytest.mark.usefixtures("on_mac")
def test_static_program_is_closed(tmp_path: Path) -> None:
    for content in (image(defines=["ggml_graph_compute"]), image() + b"GGML_ASSERT"):
        report = doctor.examine(program(tmp_path / "llama-cli", content))

        assert (report.linkage, report.works) == ("static", False)
        assert "Homebrew's" in report.advice


HARDENED = 0x10000
ALLOWS = "com.apple.security.cs.allow-dyld-environment-variables"
ANY_LIBRARY = "com.apple.security.cs.disable-library-validation"


@pytest.mark.usefixtures("on_mac")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, ""),
        ({"flags": 0x2}, ""),  # signed for this machine only, as linkers do
        ({"flags": HARDENED}, "hardened runtime"),
        ({"flags": HARDENED, "entitlements": [ALLOWS]}, "its own developer"),
        ({"flags": HARDENED, "entitlements": [ANY_LIBRARY]}, "hardened runtime"),
        ({"flags": HARDENED, "entitlements": [ALLOWS, ANY_LIBRARY]}, ""),
        ({"flags": 0x800}, "marked as restricted"),
        ({"segment": "__RESTRICT"}, "marked as restricted"),
        ({"flags": 0x2000}, "its own developer"),
    ],
)
def test_signature_that_closes_a_door_is_reported(
    how: dict[str, object], why: str, tmp_path: Path
) -> None:
    report = doctor.examine(linked(tmp_path, **how))

    assert report.linkage == ("restricted" if why else "shared")
    assert report.works is (False if why else None)
    assert why in report.routes[1].why
    assert ("codesign --force" in report.advice) == bool(why)


@pytest.mark.usefixtures("on_mac")
def test_hardened_program_takes_a_backend_where_it_may_load_any(tmp_path: Path) -> None:
    path = linked(tmp_path, flags=HARDENED, entitlements=[ANY_LIBRARY])
    (tmp_path / "lib" / "libggml.dylib").write_bytes(
        image(6, defines=["ggml_backend_load_all_from_path"])
    )

    report = doctor.examine(path)

    assert answers(report) == {"GGML_BACKEND_PATH": None, DYLD: False}
    assert report.linkage == "dynamic-backends"


@pytest.mark.usefixtures("on_mac")
def test_programs_of_the_system_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / "python3", image())
    monkeypatch.setattr(doctor, "_OWN_OF_MACOS", (f"{tmp_path}/",))

    report = doctor.examine(path)

    assert (report.linkage, report.works) == ("restricted", False)
    assert "part of macOS" in report.routes[1].why


@pytest.mark.usefixtures("on_mac")
def test_part_for_this_machine_is_read(tmp_path: Path) -> None:
    static = image(defines=["ggml_graph_compute"])
    other = image(machine=INTEL)
    path = tmp_path / "llama-cli"

    program(path, fat((INTEL, other), (ARM, static)))
    assert doctor.examine(path).linkage == "static"
    program(path, fat((INTEL, other)))  # Rosetta runs it
    assert doctor.examine(path).linkage == "no-ggml"
    program(path, image(machine=0x01000012))
    report = doctor.examine(path)
    assert report.linkage == "other-machine"
    assert "machine 0x1000012" in report.routes[0].why


@pytest.mark.usefixtures("on_mac")
def test_missing_library_and_foreign_program_are_reported(tmp_path: Path) -> None:
    path = program(tmp_path / "serve", image(needed=["@rpath/libllama.dylib"]))
    elf = program(tmp_path / "other", b"\x7fELF" + bytes(60))

    assert "Not found: @rpath/libllama.dylib" in doctor.examine(path).advice
    assert doctor.examine(elf).routes[0].why == "built for Linux"


@pytest.mark.usefixtures("on_mac")
def test_interpreter_names_the_doors_of_macos(tmp_path: Path) -> None:
    report = doctor.examine(program(tmp_path / "python3.12", image()))

    assert report.linkage == "python"
    assert list(answers(report)) == ["GGML_BACKEND_PATH", DYLD]


@pytest.mark.usefixtures("on_mac")
def test_damaged_files_are_reported_in_words(tmp_path: Path) -> None:
    content = linked(tmp_path, flags=HARDENED, entitlements=[ALLOWS]).read_bytes()
    path = tmp_path / "bin" / "llama-cli"
    changed = [content[:cut] for cut in range(4, len(content), 7)]
    for place in range(4, len(content), 5):
        each = bytearray(content)
        each[place] ^= 0xFF
        changed.append(bytes(each))

    for each in changed:
        path.write_bytes(each)
        try:
            text = json.dumps(doctor.examine(path).as_json())
        except doctor.DoctorError as error:
            text = str(error)
        assert str(path) in text


def test_elsewhere_it_is_a_program_of_macos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")

    report = doctor.examine(linked(tmp_path))

    assert (report.linkage, report.works) == ("macho", False)
    assert report.routes[1] == doctor.AttachRoute(
        "LD_PRELOAD", False, "built for macOS"
    )


@pytest.mark.usefixtures("on_mac")
def test_launcher_names_the_tracer_by_both_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = program(tmp_path / "tracer.so", b"")
    monkeypatch.setenv("GGSCOPE_TRACER", str(tracer))
    monkeypatch.setenv(DYLD, "/other.dylib")
    monkeypatch.delenv("GGSCOPE_RINGS", raising=False)
    path = tmp_path / "told"
    script = program(tmp_path / "serve", f"#!/bin/sh\nenv > {path}\n".encode())

    assert main(["run", "--", str(script)]) == 0

    told_lines = path.read_text().splitlines()
    assert f"{DYLD}={tracer}:/other.dylib" in told_lines
    assert f"GGML_BACKEND_PATH={tracer}" in told_lines
    ring = next(line for line in told_lines if line.startswith("GGSCOPE_RING="))
    assert ring.startswith(f"GGSCOPE_RING={tempfile.gettempdir()}/")


# ---- with a compiler for macOS ------------------------------------------------------


def zig() -> list[str]:
    """Return the command of a compiler for macOS; skip where there is none."""
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang"]
    result = shutil.which("zig")
    if result is None:
        pytest.skip("compiling for macOS needs zig: pip install ziglang")
    return [result]


def compiled(
    folder: Path, name: str, machine: str, *what: str | Path, text: str = ""
) -> Path:
    """Compile a library for macOS; the text, or the files named."""
    target = folder / name
    command = [*zig(), "cc", "-target", TARGETS[machine], *build.FLAGS, "-dynamiclib"]
    if text:
        source = folder / f"{name}.c"
        source.write_text(text)
        what = (source, "-fvisibility=default", *what)
    done = subprocess.run(
        [*command, *map(str, what), "-o", str(target)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return target


def names_of(path: Path, machine: str) -> tuple[set[str], set[str]]:
    """Return the names that a file shows to others, and those that it needs."""
    content = path.read_bytes()
    n_commands = struct.unpack_from("<I", content, 16)[0]
    shown: set[str] = set()
    needed: set[str] = set()
    at = 32
    for _ in range(n_commands):
        kind, length = struct.unpack_from("<II", content, at)
        if kind == 2:
            symbols, n, text, _ = struct.unpack_from("<IIII", content, at + 8)
            for i in range(n):
                place, type_ = struct.unpack_from("<IB", content, symbols + 16 * i)
                end = content.index(b"\0", text + place)
                name = content[text + place : end].decode()
                if type_ & 0xE0 == 0 and type_ & 1 and not type_ & 0x10:
                    (shown if type_ & 0xE else needed).add(name)
        at += length
    assert struct.unpack_from("<I", content, 4)[0] == CODES[machine]
    return shown, needed


@pytest.mark.parametrize("machine", TARGETS)
def test_tracer_compiles_for_macos(machine: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, "tracer.dylib", machine, "-Werror", *build.sources())

    shown, needed = names_of(path, machine)
    read = macho.read(path, [machine], ["ggml_backend_init"])

    assert {"_ggml_backend_init", "_ggscope_source"} <= shown
    assert not [name for name in needed if name.startswith(("_gg", "_llama"))]
    assert read.needed == ["/usr/lib/libSystem.B.dylib"]
    assert (read.file_type, read.defines) == (macho.LIBRARY, {"ggml_backend_init"})
    assert not read.drops_variables


# What the walk asks the system for; and what macOS's headers declare, as far as needed.
HEADERS = """
#pragma once
#include <stdint.h>
struct mach_header { uint32_t magic; int32_t cpu, sub;
    uint32_t type, ncmds, size, flags; };
struct mach_header_64 { uint32_t magic; int32_t cpu, sub;
    uint32_t type, ncmds, size, flags, reserved; };
struct load_command { uint32_t cmd, cmdsize; };
struct segment_command_64 { uint32_t cmd, cmdsize; char segname[16];
    uint64_t vmaddr, vmsize, fileoff, filesize; int32_t maxprot, initprot;
    uint32_t nsects, flags; };
struct section_64 { char sectname[16], segname[16]; uint64_t addr, size;
    uint32_t offset, align, reloff, nreloc, flags, reserved1, reserved2, reserved3; };
struct symtab_command { uint32_t cmd, cmdsize, symoff, nsyms, stroff, strsize; };
struct dysymtab_command { uint32_t cmd, cmdsize, ilocalsym, nlocalsym, iextdefsym,
    nextdefsym, iundefsym, nundefsym, tocoff, ntoc, modtaboff, nmodtab, extrefsymoff,
    nextrefsyms, indirectsymoff, nindirectsyms, extreloff, nextrel, locreloff,
    nlocrel; };
struct nlist_64 { union { uint32_t n_strx; } n_un; uint8_t n_type, n_sect;
    uint16_t n_desc; uint64_t n_value; };
enum { LC_SYMTAB = 2, LC_DYSYMTAB = 11, LC_SEGMENT_64 = 0x19, SG_READ_ONLY = 16,
    SECTION_TYPE = 255, S_NON_LAZY_SYMBOL_POINTERS = 6, S_LAZY_SYMBOL_POINTERS = 7,
    N_STAB = 0xE0, N_TYPE = 0xE, N_SECT = 0xE, VM_PROT_READ = 1, VM_PROT_WRITE = 2,
    VM_PROT_COPY = 16 };
#define MH_MAGIC_64 0xFEEDFACFu
#define SEG_TEXT "__TEXT"
#define SEG_LINKEDIT "__LINKEDIT"
typedef uintptr_t vm_address_t;
typedef void (*told)(const struct mach_header *, intptr_t);
int vm_protect(int, vm_address_t, uintptr_t, int, int);
int mach_task_self(void);
int pthread_threadid_np(void *, uint64_t *);
void _dyld_register_func_for_add_image(told);
void _dyld_register_func_for_remove_image(told);
"""
SYSTEM = """
#include "tracer.h"
#include <mach-o/loader.h>
told added, removed;
int n_unsealed;
int vm_protect(int t, vm_address_t a, uintptr_t n, int m, int p)
{ (void)t; (void)a; (void)n; (void)m; n_unsealed += (p & 2) != 0; return 0; }
int mach_task_self(void) { return 0; }
int pthread_threadid_np(void *t, uint64_t *n) { (void)t; *n = 1; return 0; }
void _dyld_register_func_for_add_image(told f) { added = f; }
void _dyld_register_func_for_remove_image(told f) { removed = f; }
void *found[4];
struct symbol symbols[4] = {
    {"gguf_init_from_file", &found[0], (void *)0x1000, 0, false},
    {"ggml_barrier", &found[1], (void *)0x2000, 0, true},
    {"ggml_version", &found[2], 0, 0, false},
    {"llama_backend_init", &found[3], (void *)0x4000, 0, false},
};
void begin(void) { objects_watch(symbols, 4); }
void come(void *header, intptr_t slide) { added(header, slide); }
void go(void *header, intptr_t slide) { removed(header, slide); }
"""


class Loaded:
    """A Mach-O library in memory, its places as they would be without fix-ups."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.slots: dict[str, list[int]] = {}
        sections, tables = [], {}
        at = 32
        segments = []
        for _ in range(struct.unpack_from("<I", content, 16)[0]):
            kind, length = struct.unpack_from("<II", content, at)
            if kind == 0x19:
                segments.append(struct.unpack_from("<QQQQ", content, at + 24))
                for i in range(struct.unpack_from("<I", content, at + 64)[0]):
                    place = at + 72 + 80 * i
                    address, size = struct.unpack_from("<QQ", content, place + 32)
                    flags, first = struct.unpack_from("<II", content, place + 64)
                    sections.append((address, size, flags & 255, first))
            elif kind in (2, 11):
                tables[kind] = struct.unpack_from("<18I", content, at + 8)
            at += length
        self.memory = mmap.mmap(-1, max(start + size for start, size, _, _ in segments))
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for start, _, offset, size in segments:
            self.memory[start : start + size] = content[offset : offset + size]
        symbols, _, text, _ = tables[2][:4]
        indirect, n_indirect = tables[11][12:14]
        for address, size, kind, first in sections:
            for i in range(size // 8 if kind in SLOT_TYPES else 0):
                assert first + i < n_indirect
                place = indirect + 4 * (first + i)
                index = struct.unpack_from("<I", content, place)[0]
                name = text + struct.unpack_from("<I", content, symbols + 16 * index)[0]
                title = content[name : content.index(b"\0", name)].decode()
                self.slots.setdefault(title, []).append(address + 8 * i)

    def slot(self, name: str) -> set[int]:
        """Return what the slots of a name hold."""
        places = self.slots[name]
        return {struct.unpack_from("<Q", self.memory, at)[0] for at in places}


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the walk is run with Linux's compiler"
)
@pytest.mark.parametrize("machine", TARGETS)
def test_slots_of_images_are_found_and_changed(machine: str, tmp_path: Path) -> None:
    base = compiled(
        tmp_path, "libggml-base.dylib", machine,
        text="void *gguf_init_from_file(void) { return 0; }\n"
        "int ggml_version(void) { return 1; }\n"
        "void ggml_barrier(void) { gguf_init_from_file(); }",
    )  # fmt: skip
    llama = compiled(
        tmp_path, "libllama.dylib", machine, base,
        text="void *gguf_init_from_file(void); void ggml_barrier(void);\n"
        "int ggml_version(void);\n"
        "void *kept(void) { return (void *)gguf_init_from_file; }\n"  # in __got
        "int read(void) { gguf_init_from_file(); ggml_barrier();\n"
        "return ggml_version(); }",
    )  # fmt: skip
    for name in ("mach-o/loader.h", "mach-o/nlist.h", "mach-o/dyld.h", "mach/mach.h"):
        header = tmp_path / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(HEADERS if name == "mach-o/loader.h" else "")
    (tmp_path / "system.c").write_text(SYSTEM)
    walk = tmp_path / "walk.so"
    subprocess.run(
        ["cc", "-D__APPLE__", "-D_GNU_SOURCE", "-include", "mach-o/loader.h",
         f"-I{tmp_path}/include", f"-I{build.FOLDER}", "-shared", "-fPIC", "-pthread",
         build.FOLDER / "macho.c", tmp_path / "system.c", "-o", walk],
        check=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(walk))
    for function in (library.come, library.go):
        function.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
    result = (ctypes.c_uint64 * 4).in_dll(library, "found")
    library.begin()

    caller, called = Loaded(llama), Loaded(base)
    before = caller.slot("_ggml_barrier")
    library.come(caller.base, caller.base)
    assert 0x1000 not in caller.slot("_gguf_init_from_file")  # nobody has it yet
    library.come(called.base, called.base)

    assert caller.slot("_gguf_init_from_file") == {0x1000}
    assert caller.slot("_ggml_barrier") == before  # sees some calls only
    assert called.base < result[0] < called.base + len(called.memory)
    assert result[2] != 0
    assert result[3] == 0
    assert ctypes.c_int.in_dll(library, "n_unsealed").value == 1

    library.go(called.base, called.base)
    assert list(result) == [0, 0, 0, 0]
