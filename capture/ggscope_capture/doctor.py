"""Traceability of a program, read from its binary before it runs.

An unmodified program can be traced if its calls within ggml go through the PLT, where
they can be interposed. That holds if ggml's CPU code is a shared library: either loaded
by ggml itself (then ``GGML_BACKEND_PATH`` loads the tracer in the same way) or linked
(``LD_PRELOAD``). Code that is linked statically has no PLT entries. The answers rest on
the ELF files: needed libraries, defined symbols, PLT relocations. On macOS the files
are Mach-O and less is visible: a library calls its own functions directly, so graphs
and begins of ops are traced through the function tables of ggml's backends. That route
is written and compiled, but untested on a Mac; so its answer is never a plain yes.
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
from dataclasses import dataclass, field, replace
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
INTERPOSED = ("ggml_graph_compute", "ggml_cpu_extra_compute_forward", "ggml_barrier")
"""Functions that libggml-cpu must call through its PLT to trace each thread's ops."""
_CPU, _REGISTRY = "ggml_graph_compute", "ggml_backend_load_all_from_path"
_BACKEND = "ggml_backend_init"
"""Symbol of a library that ggml loads as a backend."""
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
"""Functions that must be called across Mach-O files for the tracer to see backends."""
_OWN_OF_MACOS = ("/System/", "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/",
                 "/usr/libexec/")  # fmt: skip
_UNTRIED = "untested: the macOS tracer has not run on a Mac yet"
_INTERPRETERS = {"python": "Python", "node": "Node", "bun": "Node", "deno": "Node"}
# Exceptions of pyelftools for files that do not match their header.
_DAMAGED = (ELFError, ValueError, KeyError, IndexError, AttributeError, TypeError,
            AssertionError, OverflowError, struct.error)  # fmt: skip


class DoctorError(Exception):
    """The program cannot be examined; the text says why."""


@dataclass(frozen=True, slots=True)
class AttachRoute:
    """One way to load the tracer; `works` = None: only a run can show.

    `variable` is the environment variable that names the tracer.
    """

    variable: str
    works: bool | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The traceability of a program.

    `linkage` is one of "dynamic-backends", "shared", "one-library", "static",
    "fully-static", "setuid", "sandbox", "restricted" (by macOS), "not-executable",
    "script", "python", "node", "macho" (a program of macOS elsewhere), "no-ggml",
    "other-machine", "damaged".
    """

    program: str
    linkage: str
    routes: list[AttachRoute]
    advice: str

    @property
    def works(self) -> bool | None:
        """Whether any route works; None: only a run can show."""
        verdicts = {route.works for route in self.routes}
        return True if True in verdicts else None if None in verdicts else False

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command prints it."""
        routes = [
            {"door": route.variable, "works": route.works, "why": route.why}
            for route in self.routes
        ]
        return {
            "program": self.program, "linkage": self.linkage, "doors": routes,
            "advice": self.advice,
        }  # fmt: skip


def examine(program: str | Path) -> Report:
    """Return which routes into a program work.

    Parameters
    ----------
    program : a path, or a name to search on PATH; may be a library.

    Raises
    ------
    DoctorError
        If there is no such program, or it cannot be read.
    """
    path = find(program)
    if path.is_dir():
        library = next(iter(sorted(path.glob("libllama.*"))), None)
        if library is None:
            raise DoctorError(f"{path} is a folder; give the program in it")
        path = library
    try:
        with open_for_reading(path, follows_links=True) as handle:
            head = handle.read(256)
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    if path.resolve().name == "snap" or "/flatpak/exports/" in str(path):
        return _closed(
            path, "sandbox",
            "it runs in a sandbox (Snap or Flatpak), which blocks the tracer",
            "Use a build outside the sandbox: an official release of llama.cpp, or "
            "libraries from `ggscope-capture targets --install npm`.",
        )  # fmt: skip
    if head[:2] == b"#!":
        return _script(path, head)
    if is_bare_script(path):
        return _script(path, b"#!/bin/sh\n")
    if head[:4] not in (b"\x7fELF", *_MACHO):
        raise DoctorError(f"{path} is not a program (neither ELF, Mach-O nor a script)")
    return _binary(path)


def _binary(path: Path) -> Report:
    """Report on a binary, program or library; raises DoctorError."""
    try:
        with open_for_reading(path, follows_links=True) as handle:
            is_elf = handle.read(4) == b"\x7fELF"
    except OSError as error:
        raise DoctorError(f"{path} cannot be read: {reason_of(error)}") from error
    if is_elf == (sys.platform == "darwin"):
        why = "built for " + ("Linux" if is_elf else "macOS")
        linkage = "other-machine" if is_elf else "macho"
        return _closed(path, linkage, why, "Use a build for this machine.")
    return _elf(path) if is_elf else _macho(path)


def find(program: str | Path) -> Path:
    """Return a program's path, searched like a shell does; raises DoctorError."""
    there = shutil.which(program)
    if there is not None:
        return Path(there)
    path = Path(program)
    if path.exists() and (os.sep in str(program) or path.suffix in (".so", ".dylib")):
        return path  # a library, or one that may not be executed
    where = "" if os.sep in str(program) else " on PATH"
    raise DoctorError(f"program {program} not found{where}")


@dataclass(slots=True)
class _Object:
    """The relevant parts of one ELF file."""

    path: Path
    needed: list[str] = field(default_factory=list)
    runpath: list[str] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)
    plt_calls: set[str] = field(default_factory=set)
    machine: str = ""
    bits: int = 64
    interpreter: str = ""
    is_dynamic: bool = False
    is_library: bool = False


def _read(path: Path) -> _Object:
    """Read an ELF file; raises DoctorError if it is damaged or unreadable."""
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
            tag: Any  # named after what it holds, which no type says
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
        read.plt_calls = _plt_calls(elf)
    return read


def _plt_calls(elf: ELFFile) -> set[str]:
    """Return which of `INTERPOSED` are called through the PLT."""
    symbols: Any = elf.get_section_by_name(".dynsym")
    names = set()
    for name in (".rela.plt", ".rel.plt"):
        section = elf.get_section_by_name(name)
        if isinstance(section, RelocationSection):
            for relocation in section.iter_relocations():
                names.add(symbols.get_symbol(relocation["r_info_sym"]).name)
    return names & set(INTERPOSED)


def _elf(path: Path) -> Report:
    try:
        program = _read(path)
    except DoctorError as error:
        return _closed(
            path, "damaged", str(error), "Download or build the program again."
        )
    here = _MACHINES.get(platform.machine().lower(), "")
    if program.machine != here or program.bits != 64:
        why = f"built for another machine ({program.machine}, {program.bits} bits)"
        return _closed(path, "other-machine", why, "Use a build for this machine.")
    barred = _barred(path, is_program=not program.is_library)
    if barred is not None:
        return barred
    if "musl" in program.interpreter:
        why = "linked to musl, and the tracer needs glibc"
        return _closed(path, "other-machine", why, "Use a build for glibc.")
    if not program.is_dynamic and not program.is_library:
        if _mentions(path, b"GGML_ASSERT"):
            return _inside(path, "fully-static", "fully static")
        return _no_ggml(path, "fully static, and contains no ggml")
    return _dynamic(path, program)


def _barred(path: Path, *, is_program: bool = True) -> Report | None:
    """Report on a program whose permissions prevent tracing, else None."""
    if is_program and not os.access(path, os.X_OK):
        return _closed(
            path, "not-executable", "not executable",
            f"Run `chmod +x {shlex.quote(str(path))}`.",
        )  # fmt: skip
    if _is_privileged(path):
        return _closed(
            path, "setuid",
            "it runs with elevated rights (setuid, setgid or capabilities), so the "
            "system ignores preloaded libraries",
            "Trace a copy without these rights.",
        )  # fmt: skip
    return None


def _dynamic(path: Path, program: _Object) -> Report:
    """Report on a dynamically linked program, and on missing libraries."""
    missing: list[str] = []
    report = _by_libraries(path, program, list(_closure(program, missing)))
    if not missing:
        return report
    hint = (
        f"Not found: {', '.join(missing)}. If the program does not start, install the "
        "package of the library, or add its folder to LD_LIBRARY_PATH."
    )
    return replace(report, advice=f"{report.advice} {hint}")


def _by_libraries(path: Path, program: _Object, objects: list[_Object]) -> Report:
    """Report on a program by the symbols of it and its libraries."""
    cpu = [each for each in objects if _CPU in each.defines]
    if _CPU in program.defines and not program.is_library:
        return _inside(path, "static", "ggml is linked statically into the program")
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
            f"ggml loads its backends at run time, but there is no libggml-cpu in "
            f"{folder}, next to the program or in this folder",
            "Put ggml's CPU backend next to the program, or run from its folder.",
        )  # fmt: skip
    interpreter = next(
        (name for word, name in _INTERPRETERS.items() if path.name.startswith(word)), ""
    )
    if interpreter:
        return _interpreter(path, interpreter)
    if mentions:
        return _inside(path, "static", "ggml is linked statically into the program")
    return _no_ggml(path, "no ggml in the program or its libraries")


def _closure(program: _Object, missing: list[str]) -> Iterator[_Object]:
    """Yield a program and the libraries that it needs, except system libraries.

    Names of libraries that are not found are added to `missing`.
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
            with contextlib.suppress(DoctorError):  # unreadable: contributes nothing
                todo.append(_read(path))


def _library(name: str, needs: _Object, program: _Object) -> Path | None:
    """Return the path of a library as the loader resolves it, or None."""
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
    """Return the libraries of the loader's cache, by name."""
    command = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if command is None:
        return {}
    done = subprocess.run(
        [command, "-p"], capture_output=True, text=True, check=False, errors="replace"
    )
    lines = re.findall(r"^\s*(\S+) \([^)]*\) => (\S+)$", done.stdout, re.MULTILINE)
    return {name: Path(path) for name, path in reversed(lines)}


def _backends(places: list[Path]) -> list[_Object]:
    """Return the CPU backends in these folders, where ggml searches them."""
    objects: dict[Path, _Object] = {}
    for place in places:
        for path in sorted(place.glob("libggml-cpu*.so*")):
            with contextlib.suppress(DoctorError):
                each = _read(path)
                if _CPU in each.defines:
                    objects.setdefault(path.resolve(), each)
    return list(objects.values())


def _loaded(path: Path, backends: list[_Object]) -> Report:
    """Report on a ggml that loads its backends at run time."""
    folder = backends[0].path.parent
    n = len(backends)
    variants = "1 CPU variant" if n == 1 else f"{n} CPU variants"
    closed = _limitation(backends[0])
    path_why = (
        f"ggml loads its backends at run time ({variants} in {folder}); the tracer is "
        f"loaded as an extra backend{closed}"
    )
    own = ""
    if path.name == "ollama":
        own = "; but Ollama overrides this variable for its runners"
    routes = [
        AttachRoute(BACKEND_PATH, not own, path_why + own),
        AttachRoute(
            PRELOAD, True, f"the tracer is loaded before ggml's backends{closed}"
        ),
    ]
    return Report(
        program=str(path), linkage="dynamic-backends", routes=routes, advice=_run(path)
    )


def _linked(path: Path, linkage: str, holder: _Object) -> Report:
    closed = _limitation(holder)
    one = " with llama.cpp" if linkage == "one-library" else ""
    routes = [
        AttachRoute(
            BACKEND_PATH, False,
            f"ggml's CPU code is linked{one} ({holder.path.name}), so ggml loads no "
            "backends",
        ),
        AttachRoute(
            PRELOAD, True,
            f"calls within {holder.path.name} go through the PLT{closed}"
            if not closed else f"the tracer is loaded with the program{closed}",
        ),
    ]  # fmt: skip
    return Report(program=str(path), linkage=linkage, routes=routes, advice=_run(path))


def _limitation(backend: _Object) -> str:
    """Return the limitation for functions not called through the PLT, or ""."""
    missing = [name for name in INTERPOSED if name not in backend.plt_calls]
    if not missing:
        return ""
    return (
        f"; but calls of {' and '.join(missing)} in {backend.path.name} cannot be "
        "intercepted: only begins of ops, or whole graphs, are traced"
    )


def _inside(path: Path, linkage: str, why: str) -> Report:
    """Report on a program with ggml linked in statically."""
    if linkage == "static" and _mentions(path, b"ggscope_source"):
        asks = "its sources were modified by `ggscope-capture codemod`"
        changed = [
            AttachRoute(BACKEND_PATH, False, f"{why}, so ggml loads no backends"),
            _opened(f"{why}, and {asks} to call the tracer"),
        ]
        return Report(
            program=str(path), linkage=linkage, routes=changed, advice=_run(path)
        )
    routes = [
        AttachRoute(BACKEND_PATH, False, f"{why}, so ggml loads no backends"),
        AttachRoute(preload(), False, f"{why}, so its calls cannot be intercepted"),
    ]
    release = (
        "Homebrew's" if sys.platform == "darwin" else "an official release for Linux"
    )
    advice = (
        f"Use a build with ggml as a shared library: {release}, or cmake with "
        "-DBUILD_SHARED_LIBS=ON. `ggscope-capture targets --install npm` installs "
        "unmodified shared libraries. If you have the sources, `ggscope-capture "
        "codemod CHECKOUT` makes a static build traceable"
        + (
            ", unless libc is linked statically too (-DGGML_STATIC=ON)."
            if linkage == "fully-static"
            else "."
        )
    )
    return Report(program=str(path), linkage=linkage, routes=routes, advice=advice)


def _no_ggml(path: Path, why: str) -> Report:
    routes = [
        AttachRoute(name, None, f"{why}; child processes are traced too")
        for name in (BACKEND_PATH, preload())
    ]
    advice = (
        "If it loads ggml or launches llama.cpp, `ggscope-capture run` traces that; "
        "otherwise give the llama.cpp program itself."
    )
    return Report(program=str(path), linkage="no-ggml", routes=routes, advice=advice)


def _interpreter(path: Path, name: str) -> Report:
    binding = next(_bindings(path), None) if name == "Python" else None
    if binding is not None:
        package, report = binding
        its = [
            AttachRoute(each.variable, each.works, f"{package}: {each.why}")
            for each in report.routes
        ]
        return Report(
            program=str(path), linkage="python", routes=its, advice=_run(path)
        )
    packages = "llama-cpp-python or xllamacpp" if name == "Python" else "node-llama-cpp"
    why = f"{name} loads a binding such as {packages} at run time"
    routes = [
        AttachRoute(BACKEND_PATH, None, f"{why}: works if its ggml loads backends"),
        AttachRoute(preload(), None, f"{why}: works if its ggml is a shared library"),
    ]
    advice = (
        f"{_run(path)} To check the binding's library beforehand: "
        "`ggscope-capture doctor …/libggml-cpu"
        f"{'.dylib' if sys.platform == 'darwin' else '.so'}`."
    )
    linkage = name.lower()
    return Report(program=str(path), linkage=linkage, routes=routes, advice=advice)


def _bindings(python: Path) -> Iterator[tuple[str, Report]]:
    """Yield the llama.cpp bindings installed for a Python, with their reports."""
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
    arguments = [word for word in line if not word.startswith("-")]
    used = (
        arguments[1] if len(arguments) > 1 and arguments[0].endswith("/env") else None
    )
    command = used or (arguments[0] if arguments else "")
    name = Path(command).name
    if used:
        command = shutil.which(used) or used
    for word, title in _INTERPRETERS.items():
        if name.startswith(word):
            report = _interpreter(Path(command), title)
            return Report(
                program=str(path), linkage="script", routes=report.routes,
                advice=_run(path),
            )  # fmt: skip
    of = name or "an unknown interpreter"
    why = f"a script run by {of}; child processes inherit the variable"
    routes = [AttachRoute(name, None, why) for name in (BACKEND_PATH, preload())]
    advice = "For an exact answer give the program that it starts; or just run it."
    return Report(program=str(path), linkage="script", routes=routes, advice=advice)


def _macho(path: Path) -> Report:
    """Report on a program or library of macOS, on macOS."""
    try:
        program = _read_macho(path)
    except macho.OtherMachineError as error:
        advice = "Use a build for this machine."
        return _closed(path, "other-machine", str(error), advice)
    except macho.MachoError as error:
        advice = "Download or build the program again."
        return _closed(path, "damaged", str(error), advice)
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
                "part of macOS, which blocks libraries from being loaded into its "
                "own programs",
                "Give the program that computes, or one installed separately, such as "
                "Homebrew's.",
            )  # fmt: skip
    missing: list[str] = []
    report = _by_images(path, list(_images(program, missing)))
    if missing:
        hint = f"Not found: {', '.join(missing)}. Install its package."
        report = replace(report, advice=f"{report.advice} {hint}")
    return _restricted_by_signature(report, program) if is_program else report


def _by_images(path: Path, images: list[macho.Macho]) -> Report:
    """Report on a macOS program by the symbols of it and its libraries."""
    program = images[0]
    is_library = program.file_type != macho.EXECUTABLE
    interpreter = next(
        (name for word, name in _INTERPRETERS.items() if path.name.startswith(word)), ""
    )
    if _CPU in program.defines and not is_library:
        return _inside(path, "static", "ggml is linked statically into the program")
    holders = [each for each in images if _CPU in each.defines]
    crossed = any(name in each.imports for each in images for name in _CROSSED)
    has_registry = any(_REGISTRY in each.defines for each in images)
    if (has_registry and not holders) or (is_library and _BACKEND in program.defines):
        why = "ggml loads its backends at run time; the tracer is one more"
        routes = [
            _opened(why, BACKEND_PATH),
            _opened(_partly("the tracer is loaded before ggml's backends")),
        ]
        linkage = "dynamic-backends"
    elif holders:
        holder = holders[0]
        is_one = bool(holder.defines.intersection(_LLAMA))
        why = f"ggml's CPU code is linked ({holder.path.name})"
        closed = f"{why}, so ggml loads no backends"
        routes = [AttachRoute(BACKEND_PATH, False, closed)]
        if crossed or is_library:
            routes.append(_opened(_partly(why)))
        else:
            none = "no call that the tracer knows crosses library boundaries"
            routes.append(AttachRoute(DYLD, False, f"{why}, and {none}"))
        linkage = "one-library" if is_one else "shared"
    elif interpreter:
        return _interpreter(path, interpreter)
    elif _mentions(path, b"GGML_ASSERT"):
        return _inside(path, "static", "ggml is linked statically into the program")
    else:
        return _no_ggml(path, "no ggml in the program or its libraries")
    return Report(program=str(path), linkage=linkage, routes=routes, advice=_run(path))


def _partly(why: str) -> str:
    return f"{why}; whole graphs and begins of CPU ops are traced"


def _opened(why: str, variable: str | None = None) -> AttachRoute:
    """Return a route that works: on macOS only in principle."""
    if sys.platform == "darwin":
        return AttachRoute(variable or DYLD, None, f"{why}; {_UNTRIED}")
    return AttachRoute(variable or PRELOAD, True, why)


def _restricted_by_signature(report: Report, program: macho.Macho) -> Report:
    """Return the report without the routes that a program's signature blocks."""
    routes = []
    for route in report.routes:
        why = ""
        if (
            route.works is not False
            and route.variable == DYLD
            and program.drops_variables
        ):
            why = (
                "it uses the hardened runtime without the entitlement for DYLD_… "
                "variables, so macOS removes them"
                if program.is_hardened
                else "it is marked as restricted, so macOS removes DYLD_… variables"
            )
        elif route.works is not False and program.validates_libraries:
            why = "library validation: it loads only libraries of its own developer"
        routes.append(AttachRoute(route.variable, False, why) if why else route)
    if routes == report.routes:
        return report
    if any(route.works is not False for route in routes):
        return replace(report, routes=routes)
    name = shlex.quote(report.program)
    return replace(
        report, linkage="restricted", routes=routes,
        advice="Use a build without the hardened runtime, such as your own or "
        "Homebrew's. Or sign a copy again, which removes it: `codesign --force "
        f"--sign - COPY`, where COPY is a copy of {name}.",
    )  # fmt: skip


def _read_macho(path: Path) -> macho.Macho:
    """Read a Mach-O file for this machine; raises MachoError and OSError."""
    here = "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"
    names = (_CPU, _REGISTRY, _BACKEND, *_LLAMA, *_CROSSED)
    return macho.read(path, dict.fromkeys((here, "x86_64")), names)


def _images(program: macho.Macho, missing: list[str]) -> Iterator[macho.Macho]:
    """Yield a macOS program and its libraries, except system libraries."""
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
            with contextlib.suppress(macho.MachoError, OSError):  # unreadable
                todo.append(_read_macho(path))


def _image(name: str, needs: macho.Macho, program: macho.Macho) -> Path | None:
    """Return the path of a library as dyld resolves it, or None."""

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
    """Return the name of the loader's variable for preloaded libraries."""
    return DYLD if sys.platform == "darwin" else PRELOAD


def _closed(path: Path, linkage: str, why: str, advice: str) -> Report:
    routes = [AttachRoute(name, False, why) for name in (BACKEND_PATH, preload())]
    return Report(program=str(path), linkage=linkage, routes=routes, advice=advice)


def _run(path: Path) -> str:
    if re.search(r"\.(so|node|dylib)(\.|$)", path.name):
        return (
            "This is a library; run the program that loads it: "
            "`ggscope-capture run -o run.bin -- PROGRAM …`."
        )
    name = path.name if shutil.which(path.name) == str(path) else str(path)
    shown = f"'{name}'" if " " in name else name
    return f"Run `ggscope-capture run -o run.bin -- {shown} …`."


def _is_privileged(path: Path) -> bool:
    """Return whether a program runs with other rights than its caller."""
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
    """Return whether a file contains `word`, such as ggml's GGML_ASSERT."""
    with (
        contextlib.suppress(ValueError, OSError),  # an empty file has no map
        open_for_reading(path, follows_links=True) as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(word) >= 0
    return False
