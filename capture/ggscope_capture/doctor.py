"""Which way into a program will work, read from its files before it runs.

A program can be traced as it is where its calls within ggml go through slots that can
be filled anew when it runs. That is so where ggml's CPU code is a library: loaded by
ggml itself (``GGML_BACKEND_PATH`` then brings the tracer in the same way) or linked
(``LD_PRELOAD`` does). Code that was linked into the program itself has no such slots.
What is told here rests on the ELF files: what they need, what they define, and which
functions are called by slots. On macOS they are Mach-O files, and less can be seen:
a library calls its own functions directly, so that ggml's graphs and the beginnings of
its ops are followed through the tables of functions of its backends. That way was
written and compiled, and no Mac has run it yet; so its answer is never a plain yes.
"""

import contextlib
import functools
import mmap
import os
import platform
import re
import shlex
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.segments import InterpSegment

from ggscope_capture import macho
from ggscope_capture.child import is_bare_script
from ggscope_capture.files import reason_of
from ggscope_capture.regular_file import open_for_reading

BACKEND_PATH, PRELOAD, DYLD = (
    "GGML_BACKEND_PATH",
    "LD_PRELOAD",
    "DYLD_INSERT_LIBRARIES",
)
SLOTS = ("ggml_graph_compute", "ggml_cpu_extra_compute_forward", "ggml_barrier")
"""What libggml-cpu must call by slots, so that every op of every thread is seen."""
_CPU, _REGISTRY = "ggml_graph_compute", "ggml_backend_load_all_from_path"
_BACKEND = "ggml_backend_init"
"""What a library has that ggml loads as a backend."""
_LLAMA = ("llama_decode", "llama_process")
_MACHINES = {
    "x86_64": "EM_X86_64",
    "amd64": "EM_X86_64",
    "aarch64": "EM_AARCH64",
    "arm64": "EM_AARCH64",
}
_SYSTEM = re.compile(
    r"(ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libgcc_s\.|libstdc\+\+\.|libgomp\.|linux-vdso)"
)
"""Libraries that hold no ggml."""
_FOLDERS = ("/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
_MACHO = {b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"}
_CROSSED = ("gguf_init_from_file", "llama_backend_init")
"""What must be called from one Mach-O file in another: then backends are looked at."""
_OWN_OF_MACOS = ("/System/", "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/",
                 "/usr/libexec/")  # fmt: skip
_UNTRIED = "this was written for macOS, but no Mac has run it yet"
_INTERPRETERS = {"python": "Python", "node": "Node", "bun": "Node", "deno": "Node"}
# What pyelftools lets through where a file is not what its head says.
_DAMAGED = (ELFError, ValueError, KeyError, IndexError, AttributeError, TypeError,
            AssertionError, OverflowError, struct.error)  # fmt: skip


class DoctorError(Exception):
    """The program cannot be looked at; the text says why."""


@dataclass(frozen=True, slots=True)
class AttachRoute:
    """One way in; `works` is None where only a run can tell."""

    door: str
    works: bool | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of a program before it runs.

    `linkage` is one of "dynamic-backends", "shared", "one-library", "static",
    "fully-static", "setuid", "sandbox", "restricted" (by macOS), "not-executable",
    "script", "python", "node", "macho" (a program of macOS elsewhere), "no-ggml",
    "other-machine", "damaged".
    """

    program: str
    linkage: str
    doors: list[AttachRoute]
    advice: str

    @property
    def works(self) -> bool | None:
        """Whether any door works; None where only a run can tell."""
        answers = {door.works for door in self.doors}
        return True if True in answers else None if None in answers else False

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command prints it."""
        return asdict(self)


def examine(program: str | Path) -> Report:
    """Tell which doors of a program work.

    Parameters
    ----------
    program : a path, or a name that is looked for on PATH; also a library.

    Raises
    ------
    DoctorError
        If there is no such program, or it cannot be read.
    """
    path = find(program)
    if path.is_dir():
        library = next(iter(sorted(path.glob("libllama.*"))), None)
        if library is None:
            raise DoctorError(f"{path} is a folder; name the program in it")
        path = library
    try:
        with open_for_reading(path, follows_links=True) as handle:
            head = handle.read(256)
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    if path.resolve().name == "snap" or "/flatpak/exports/" in str(path):
        return _closed(
            path, "sandbox",
            "it runs in a sandbox (Snap or Flatpak), which keeps the tracer out",
            "Use a build that runs outside of it: an official release of llama.cpp, or "
            "what `ggscope-capture targets --install npm` brings.",
        )  # fmt: skip
    if head[:2] == b"#!":
        return _script(path, head)
    if is_bare_script(path):
        return _script(path, b"#!/bin/sh\n")
    if head[:4] not in (b"\x7fELF", *_MACHO):
        raise DoctorError(f"{path} is no program: it is neither ELF, Mach-O nor script")
    return _binary(path)


def _binary(path: Path) -> Report:
    """Report on a program or library that is there; raises DoctorError."""
    try:
        with open_for_reading(path, follows_links=True) as handle:
            is_elf = handle.read(4) == b"\x7fELF"
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    if is_elf == (sys.platform == "darwin"):
        why = "it is a program of " + ("Linux" if is_elf else "macOS")
        linkage = "other-machine" if is_elf else "macho"
        return _closed(path, linkage, why, "Use a build for this machine.")
    return _elf(path) if is_elf else _macho(path)


def find(program: str | Path) -> Path:
    """Return where a program is, as the shell would; raises DoctorError."""
    there = shutil.which(program)
    if there is not None:
        return Path(there)
    path = Path(program)
    if path.exists() and (os.sep in str(program) or path.suffix in (".so", ".dylib")):
        return path  # a library, or one that may not be executed
    where = "there" if os.sep in str(program) else "on PATH"
    raise DoctorError(f"there is no program {program} {where}")


@dataclass(slots=True)
class _Object:
    """What matters of one ELF file."""

    path: Path
    needed: list[str] = field(default_factory=list)
    runpath: list[str] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)
    slots: set[str] = field(default_factory=set)
    machine: str = ""
    bits: int = 64
    interpreter: str = ""
    is_dynamic: bool = False
    is_library: bool = False


def _read(path: Path) -> _Object:
    """Read an ELF file; raises DoctorError where it is damaged or cannot be read."""
    try:
        with open_for_reading(path, follows_links=True) as handle:
            return _read_open(path, handle)
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    except _DAMAGED as error:
        raise DoctorError(f"{path} is damaged: {error}") from error


def _read_open(path: Path, handle: BinaryIO) -> _Object:
    elf = ELFFile(handle)
    read = _Object(path, machine=elf["e_machine"], bits=elf.elfclass)
    for segment in elf.iter_segments():
        if isinstance(segment, InterpSegment):
            read.interpreter = segment.get_interp_name()
        if isinstance(segment, DynamicSegment):
            read.is_dynamic = True
            tag: Any  # named after what it holds, which no type tells
            for tag in segment.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    read.needed.append(tag.needed)
                elif tag.entry.d_tag == "DT_RUNPATH":
                    read.runpath = tag.runpath.split(":")
                elif tag.entry.d_tag == "DT_RPATH" and not read.runpath:
                    read.runpath = tag.rpath.split(":")
    read.is_library = elf["e_type"] == "ET_DYN" and not read.interpreter
    table: Any = elf.get_section_by_name(".gnu.hash") or elf.get_section_by_name(
        ".hash"
    )
    if table is not None:
        for name in (_CPU, _REGISTRY, _BACKEND, *_LLAMA):
            symbol = table.get_symbol(name)
            if symbol is not None and symbol["st_shndx"] != "SHN_UNDEF":
                read.defines.add(name)
    if _CPU in read.defines:
        read.slots = _slots(elf)
    return read


def _slots(elf: ELFFile) -> set[str]:
    """Return which of `SLOTS` are called by slots."""
    symbols: Any = elf.get_section_by_name(".dynsym")
    found = set()
    for name in (".rela.plt", ".rel.plt"):
        section = elf.get_section_by_name(name)
        if isinstance(section, RelocationSection):
            for relocation in section.iter_relocations():
                found.add(symbols.get_symbol(relocation["r_info_sym"]).name)
    return found & set(SLOTS)


def _elf(path: Path) -> Report:
    try:
        program = _read(path)
    except DoctorError as error:
        return _closed(path, "damaged", str(error), "Get the program anew.")
    here = _MACHINES.get(platform.machine().lower(), "")
    if program.machine != here or program.bits != 64:
        why = f"it is for {program.machine} with {program.bits} bits, not for this one"
        return _closed(path, "other-machine", why, "Use a build for this machine.")
    barred = _barred(path, is_program=not program.is_library)
    if barred is not None:
        return barred
    if "musl" in program.interpreter:
        why = "it uses the C library musl, and the tracer is built for glibc"
        return _closed(path, "other-machine", why, "Use a build for glibc.")
    if not program.is_dynamic and not program.is_library:
        if _mentions(path, b"GGML_ASSERT"):
            return _inside(path, "fully-static", "it is linked without any library")
        return _no_ggml(path, "it is linked without any library and holds no ggml")
    return _dynamic(path, program)


def _barred(path: Path, *, is_program: bool = True) -> Report | None:
    """Report on a program that the system keeps closed to this user."""
    if is_program and not os.access(path, os.X_OK):
        return _closed(
            path, "not-executable", "you may not execute it",
            f"`chmod +x {shlex.quote(str(path))}` allows it.",
        )  # fmt: skip
    if _is_privileged(path):
        return _closed(
            path, "setuid",
            "it runs with other rights than yours, and the system then ignores what "
            "would be loaded into it",
            "Trace a copy of it that has no such rights.",
        )  # fmt: skip
    return None


def _dynamic(path: Path, program: _Object) -> Report:
    """Report on a program with libraries, and on those that are not found."""
    missing: list[str] = []
    report = _by_libraries(path, program, list(_closure(program, missing)))
    if not missing:
        return report
    told = (
        f"{', '.join(missing)} cannot be found: if the program does not start, install "
        "what it belongs to, or name its folder in LD_LIBRARY_PATH."
    )
    return replace(report, advice=f"{report.advice} {told}")


def _by_libraries(path: Path, program: _Object, objects: list[_Object]) -> Report:
    """Report on a program by what it and its libraries hold."""
    cpu = [each for each in objects if _CPU in each.defines]
    if _CPU in program.defines and not program.is_library:
        return _inside(path, "static", "ggml was linked into the program itself")
    if program.is_library and _BACKEND in program.defines:
        return _loaded(path, [program])
    if cpu:
        holder = cpu[0]
        is_one = bool(holder.defines.intersection(_LLAMA))
        linkage = "one-library" if is_one else "shared"
        return _linked(path, linkage, holder)
    registry = next((each for each in objects if _REGISTRY in each.defines), None)
    places = [path.resolve().parent, Path.cwd()]
    if registry is not None:
        places.insert(0, registry.path.resolve().parent)
    mentions = registry is not None or _mentions(path, b"GGML_ASSERT")
    if mentions:
        home = path.resolve().parent.parent
        places += [home / "lib", home / "lib" / path.name]
        backends = _backends(places)
        if backends:
            return _loaded(path, backends)
    if registry is not None:
        folder = places[0]
        return _closed(
            path, "dynamic-backends",
            f"its ggml loads backends while it runs, but there is no libggml-cpu in "
            f"{folder}, beside the program or in this folder",
            "Put ggml's CPU backend beside the program, or start it where it is.",
        )  # fmt: skip
    interpreter = next(
        (name for word, name in _INTERPRETERS.items() if path.name.startswith(word)), ""
    )
    if interpreter:
        return _interpreter(path, interpreter)
    if mentions:
        return _inside(path, "static", "ggml was linked into the program itself")
    return _no_ggml(path, "neither the program nor its libraries hold ggml")


def _closure(program: _Object, missing: list[str]) -> Iterator[_Object]:
    """Yield a program and the libraries that it needs, those of the system left out.

    The names of those that are not there are added to `missing`.
    """
    seen: set[Path] = set()
    todo = [program]
    while todo:
        each = todo.pop(0)
        yield each
        for name in each.needed:
            if _SYSTEM.match(name):
                continue
            path = _library(name, each, program)
            if path is None and name not in missing:
                missing.append(name)
            if path is None or path in seen:
                continue
            seen.add(path)
            with contextlib.suppress(DoctorError):  # what cannot be read tells nothing
                todo.append(_read(path))


def _library(name: str, needs: _Object, program: _Object) -> Path | None:
    """Return the file of a library as the loader would find it, or None."""
    if "/" in name:
        return Path(name) if Path(name).is_file() else None
    places = [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    for each in (needs, program):
        origin = str(each.path.resolve().parent)
        places += [
            Path(entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))
            for entry in each.runpath
            if entry
        ]
    for place in places:
        if (place / name).is_file():
            return place / name
    known = _known_libraries().get(name)
    if known is not None:
        return known
    for folder in _FOLDERS:
        if Path(folder, name).is_file():
            return Path(folder, name)
    return None


@functools.cache
def _known_libraries() -> dict[str, Path]:
    """Return what the loader's cache names."""
    command = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if command is None:
        return {}
    done = subprocess.run(
        [command, "-p"], capture_output=True, text=True, check=False, errors="replace"
    )
    lines = re.findall(r"^\s*(\S+) \([^)]*\) => (\S+)$", done.stdout, re.MULTILINE)
    return {name: Path(path) for name, path in reversed(lines)}


def _backends(places: list[Path]) -> list[_Object]:
    """Return the CPU backends that ggml would find in these folders."""
    found: dict[Path, _Object] = {}
    for place in places:
        for path in sorted(place.glob("libggml-cpu*.so*")):
            with contextlib.suppress(DoctorError):
                each = _read(path)
                if _CPU in each.defines:
                    found.setdefault(path.resolve(), each)
    return list(found.values())


def _loaded(path: Path, backends: list[_Object]) -> Report:
    """Report on ggml that loads its backends while it runs."""
    folder = backends[0].path.parent
    n = len(backends)
    builds = "1 build" if n == 1 else f"{n} builds"
    closed = _without_slots(backends[0])
    path_why = (
        f"ggml loads its backends while it runs ({builds} of the CPU's in {folder}) "
        f"and takes the tracer as one more{closed}"
    )
    own = ""
    if path.name == "ollama":
        own = "; Ollama sets this variable for its own runners, though"
    doors = [
        AttachRoute(BACKEND_PATH, not own, path_why + own),
        AttachRoute(
            PRELOAD, True, f"the tracer is there when ggml's backends come{closed}"
        ),
    ]
    return Report(
        program=str(path), linkage="dynamic-backends", doors=doors, advice=_run(path)
    )


def _linked(path: Path, linkage: str, holder: _Object) -> Report:
    closed = _without_slots(holder)
    one = " with llama.cpp" if linkage == "one-library" else ""
    doors = [
        AttachRoute(
            BACKEND_PATH, False,
            f"ggml's CPU code is linked{one} ({holder.path.name}), so that nothing "
            "need load backends",
        ),
        AttachRoute(
            PRELOAD, True,
            f"calls within {holder.path.name} go through slots{closed}"
            if not closed else f"the tracer is loaded with the program{closed}",
        ),
    ]  # fmt: skip
    return Report(program=str(path), linkage=linkage, doors=doors, advice=_run(path))


def _without_slots(backend: _Object) -> str:
    """Return what is lost where functions are not called by slots, or nothing."""
    missing = [name for name in SLOTS if name not in backend.slots]
    if not missing:
        return ""
    return (
        f"; but {backend.path.name} was built so that {' and '.join(missing)} cannot "
        "be followed: ops are seen by their beginnings, or graphs as a whole"
    )


def _inside(path: Path, linkage: str, why: str) -> Report:
    """Report on ggml that is part of the program."""
    if linkage == "static" and _mentions(path, b"ggscope_source"):
        asks = "its sources were changed by `ggscope-capture codemod`"
        changed = [
            AttachRoute(BACKEND_PATH, False, f"{why}, so that no backend is loaded"),
            _opened(f"{why}, and {asks}: it asks for the tracer"),
        ]
        return Report(
            program=str(path), linkage=linkage, doors=changed, advice=_run(path)
        )
    doors = [
        AttachRoute(BACKEND_PATH, False, f"{why}, so that no backend is loaded"),
        AttachRoute(preload(), False, f"{why}, so that its calls cannot be followed"),
    ]
    release = (
        "Homebrew's" if sys.platform == "darwin" else "an official release for Linux"
    )
    advice = (
        f"Use a build whose ggml is a library: {release}, or cmake with "
        " -DBUILD_SHARED_LIBS=ON. `ggscope-capture targets --install npm` brings "
        "such libraries unmodified. With the sources at hand, `ggscope-capture codemod "
        "CHECKOUT` makes a static build traceable, too"
        + (
            ", if the system's C library is not linked into it (no -DGGML_STATIC=ON)."
            if linkage == "fully-static"
            else "."
        )
    )
    return Report(program=str(path), linkage=linkage, doors=doors, advice=advice)


def _no_ggml(path: Path, why: str) -> Report:
    doors = [
        AttachRoute(name, None, f"{why}; programs that it starts are traced with it")
        for name in (BACKEND_PATH, preload())
    ]
    advice = (
        "If it loads ggml or starts llama.cpp while it runs, "
        "`ggscope-capture run` sees that; else name the program that computes."
    )
    return Report(program=str(path), linkage="no-ggml", doors=doors, advice=advice)


def _interpreter(path: Path, name: str) -> Report:
    binding = next(_bindings(path), None) if name == "Python" else None
    if binding is not None:
        package, report = binding
        its = [
            AttachRoute(d.door, d.works, f"its {package}: {d.why}")
            for d in report.doors
        ]
        return Report(program=str(path), linkage="python", doors=its, advice=_run(path))
    packages = "llama-cpp-python or xllamacpp" if name == "Python" else "node-llama-cpp"
    why = f"{name} loads a binding such as {packages} while it runs"
    doors = [
        AttachRoute(BACKEND_PATH, None, f"{why}: works where its ggml loads backends"),
        AttachRoute(
            preload(), None, f"{why}: works where its ggml is a library of any kind"
        ),
    ]
    advice = (
        f"{_run(path)} To know more beforehand, ask about the binding's own library: "
        "`ggscope-capture doctor …/libggml-cpu"
        f"{'.dylib' if sys.platform == 'darwin' else '.so'}`."
    )
    linkage = name.lower()
    return Report(program=str(path), linkage=linkage, doors=doors, advice=advice)


def _bindings(python: Path) -> Iterator[tuple[str, Report]]:
    """Yield the bindings that are installed beside a Python, and what they are."""
    # Not resolved: a virtual environment's program is a link to another one's.
    root = python.absolute().parent.parent
    for package, library in (
        ("llama-cpp-python", "llama_cpp/lib/libllama.[sd]*"),  # .so, .dylib
        ("xllamacpp", "xllamacpp/xllamacpp*.so"),
    ):
        for path in sorted(root.glob(f"lib/python3*/*-packages/{library}")):
            with contextlib.suppress(DoctorError):
                yield package, _binary(path)


def _script(path: Path, head: bytes) -> Report:
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    words = [word for word in line if not word.startswith("-")]
    used = words[1] if len(words) > 1 and words[0].endswith("/env") else None
    command = used or (words[0] if words else "")
    name = Path(command).name
    if used:
        command = shutil.which(used) or used
    for word, title in _INTERPRETERS.items():
        if name.startswith(word):
            report = _interpreter(Path(command), title)
            return Report(
                program=str(path), linkage="script", doors=report.doors,
                advice=_run(path),
            )  # fmt: skip
    of = name or "an unknown interpreter"
    why = f"it is a script of {of}; what it starts inherits this"
    doors = [AttachRoute(door, None, why) for door in (BACKEND_PATH, preload())]
    advice = "Name the program that it starts, to know beforehand; a run works as well."
    return Report(program=str(path), linkage="script", doors=doors, advice=advice)


def _macho(path: Path) -> Report:
    """Report on a program or library of macOS, on macOS."""
    try:
        program = _read_macho(path)
    except macho.MachoError as error:
        linkage = "other-machine" if "not for this one" in str(error) else "damaged"
        return _closed(path, linkage, str(error), "Use a build for this machine.")
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    is_program = program.file_type == macho.EXECUTABLE
    if is_program:
        barred = _barred(path)
        if barred is not None:
            return barred
        if str(path.resolve()).startswith(_OWN_OF_MACOS):
            return _closed(
                path, "restricted",
                "it belongs to macOS, which lets nothing be loaded into its own "
                "programs",
                "Name the program that computes, or one that was installed beside the "
                "system, such as Homebrew's.",
            )  # fmt: skip
    missing: list[str] = []
    report = _by_images(path, list(_images(program, missing)))
    if missing:
        told = f"{', '.join(missing)} cannot be found: install what it belongs to."
        report = replace(report, advice=f"{report.advice} {told}")
    return _held_back(report, program) if is_program else report


def _by_images(path: Path, images: list[macho.Macho]) -> Report:
    """Report on a program of macOS by what it and its libraries hold and call."""
    program = images[0]
    is_library = program.file_type != macho.EXECUTABLE
    interpreter = next(
        (name for word, name in _INTERPRETERS.items() if path.name.startswith(word)), ""
    )
    if _CPU in program.defines and not is_library:
        return _inside(path, "static", "ggml was linked into the program itself")
    holders = [each for each in images if _CPU in each.defines]
    crossed = any(name in each.imports for each in images for name in _CROSSED)
    has_registry = any(_REGISTRY in each.defines for each in images)
    if (has_registry and not holders) or (is_library and _BACKEND in program.defines):
        why = "ggml loads its backends while it runs, and takes the tracer as one more"
        doors = [
            _opened(why, BACKEND_PATH),
            _opened(_seen("the tracer is there first")),
        ]
        linkage = "dynamic-backends"
    elif holders:
        holder = holders[0]
        is_one = bool(holder.defines.intersection(_LLAMA))
        why = f"ggml's CPU code is linked ({holder.path.name})"
        closed = f"{why}, so that nothing need load backends"
        doors = [AttachRoute(BACKEND_PATH, False, closed)]
        if crossed or is_library:
            doors.append(_opened(_seen(why)))
        else:
            none = "no call that the tracer knows passes from one file to another"
            doors.append(AttachRoute(DYLD, False, f"{why}, and {none}"))
        linkage = "one-library" if is_one else "shared"
    elif interpreter:
        return _interpreter(path, interpreter)
    elif _mentions(path, b"GGML_ASSERT"):
        return _inside(path, "static", "ggml was linked into the program itself")
    else:
        return _no_ggml(path, "neither the program nor its libraries hold ggml")
    return Report(program=str(path), linkage=linkage, doors=doors, advice=_run(path))


def _seen(why: str) -> str:
    return f"{why}; graphs are seen as a whole, and ops of the CPU when they begin"


def _opened(why: str, door: str | None = None) -> AttachRoute:
    """Return a door that is open: on macOS only in principle."""
    if sys.platform == "darwin":
        return AttachRoute(door or DYLD, None, f"{why}; {_UNTRIED}")
    return AttachRoute(door or PRELOAD, True, why)


def _held_back(report: Report, program: macho.Macho) -> Report:
    """Return the report with the doors closed that a program's signature closes."""
    doors = []
    for door in report.doors:
        why = ""
        if door.works is not False and door.door == DYLD and program.drops_variables:
            why = (
                "it has the hardened runtime without the right to be given DYLD_… "
                "variables, which macOS then takes away"
                if program.is_hardened
                else "it is marked as restricted, and macOS then takes DYLD_… "
                "variables away"
            )
        elif door.works is not False and program.validates_libraries:
            why = "its signature lets it load libraries of its own maker only"
        doors.append(AttachRoute(door.door, False, why) if why else door)
    if doors == report.doors:
        return report
    if any(door.works is not False for door in doors):
        return replace(report, doors=doors)
    name = shlex.quote(report.program)
    return replace(
        report, linkage="restricted", doors=doors,
        advice="Use a build without the hardened runtime, such as your own or "
        "Homebrew's. A copy of it that is signed anew has none: `codesign --force "
        f"--sign - COPY`, where COPY is a copy of {name}.",
    )  # fmt: skip


def _read_macho(path: Path) -> macho.Macho:
    """Read a file for this machine; raises MachoError and OSError."""
    here = "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
    names = (_CPU, _REGISTRY, _BACKEND, *_LLAMA, *_CROSSED)
    return macho.read(path, dict.fromkeys((here, "x86_64")), names)


def _images(program: macho.Macho, missing: list[str]) -> Iterator[macho.Macho]:
    """Yield a program of macOS and its libraries, those of the system left out."""
    seen: set[Path] = set()
    todo = [program]
    while todo:
        each = todo.pop(0)
        yield each
        for name in each.needed:
            if name.startswith(("/usr/lib/", "/System/")):
                continue
            path = _image(name, each, program)
            if path is None and name not in missing:
                missing.append(name)
            if path is None or path in seen:
                continue
            seen.add(path)
            with contextlib.suppress(macho.MachoError, OSError):  # tells nothing
                todo.append(_read_macho(path))


def _image(name: str, needs: macho.Macho, program: macho.Macho) -> Path | None:
    """Return the file of a library as dyld would find it, or None."""

    def placed(text: str, of: macho.Macho) -> str:
        own, main = (str(each.path.resolve().parent) for each in (of, program))
        text = text.replace("@loader_path", own)
        return text.replace("@executable_path", main)

    tried = [placed(name, needs)]
    if name.startswith("@rpath/"):
        rest = name.removeprefix("@rpath/")
        tried = [
            f"{placed(folder, of)}/{rest}"
            for of in (needs, program)
            for folder in of.rpath
        ]
    return next((Path(each) for each in tried if Path(each).is_file()), None)


def preload() -> str:
    """Return the variable by which the system's loader takes libraries along."""
    return DYLD if sys.platform == "darwin" else PRELOAD


def _closed(path: Path, linkage: str, why: str, advice: str) -> Report:
    doors = [AttachRoute(name, False, why) for name in (BACKEND_PATH, preload())]
    return Report(program=str(path), linkage=linkage, doors=doors, advice=advice)


def _run(path: Path) -> str:
    if re.search(r"\.(so|node|dylib)(\.|$)", path.name):
        return (
            "This is a library: run the program that loads it, "
            "`ggscope-capture run -o run.bin -- PROGRAM …`."
        )
    name = path.name if shutil.which(path.name) == str(path) else str(path)
    shown = f"'{name}'" if " " in name else name
    return f"Run `ggscope-capture run -o run.bin -- {shown} …`."


def _is_privileged(path: Path) -> bool:
    """Tell whether a program gets other rights than its caller's."""
    status = path.stat()
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        return True
    if status.st_mode & stat.S_ISGID and status.st_gid not in os.getgroups():
        return True
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return "security.capability" in os.listxattr(path)
    return False


def _mentions(path: Path, word: bytes) -> bool:
    """Tell whether a file's bytes hold a word: ggml complains by GGML_ASSERT."""
    with (
        contextlib.suppress(ValueError, OSError),  # an empty file has no map
        open_for_reading(path, follows_links=True) as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(word) >= 0
    return False
