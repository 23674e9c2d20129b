"""Search and installation of a llama.cpp that can be traced.

No package ships llama.cpp's programs ready to run, but two ship its libraries as they
were built from the original source: npm's ``@node-llama-cpp`` (backends loaded while it
runs) and PyPI's ``xllamacpp`` (one library). They are put into a private folder, by npm
or pip, with no script of theirs run, and started by `ggscope_capture.driver`. The
programs can be built, too: the source package of PyPI's ``llama-cpp-python`` holds the
whole of llama.cpp. What is built goes into the folder for caches, which all share.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ggscope_capture import doctor, files

NPM_VERSION = "3.22.1"
PYPI_VERSION = "2026.10.11549"
SOURCE_VERSION = "0.3.36"
"""Of ``llama-cpp-python``, in whose source package llama.cpp lies."""
BUILT = ("llama-completion", "llama-server")
"""What `install` builds."""
PROGRAMS = (
    "llama-completion",
    "llama-cli",
    "llama-server",
    "llama-simple",
    "llama-bench",
    "llama-perplexity",
    "llama-embedding",
    "llama-run",
)
"""Programs of llama.cpp, the best for a first trace first."""
_CONTINUES = ("llama-completion", "llama-simple")
"""Those that continue a text and end."""
_FOLDERS = (
    "~/llama.cpp",
    "~/src/llama.cpp",
    "~/git/llama.cpp",
    "~/code/llama.cpp",
    "~/projects/llama.cpp",
    "~/Downloads/llama.cpp",
    "/opt/llama.cpp",
    "/usr/local/llama.cpp",
)
"""Where people keep a checkout or an unpacked release."""
_PLACES = ("~/.local/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/lib/llama.cpp")
_INSTALL_S, _BUILD_S = 600, 7200
_WITHOUT = (
    "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP",
    "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI", "GGML_CCACHE",
)  # fmt: skip
"""Parts that nothing here needs; the last but one would be fetched from elsewhere."""


class InstallError(Exception):
    """Nothing was installed; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A llama.cpp that can be run.

    `kind` is "program", "libraries" (a folder) or "library" (a file); the last two
    are started by `ggscope_capture.driver`. `origin` says where it was found.
    """

    path: Path
    kind: str
    origin: str

    def command(
        self,
        model: Path | str,
        prompt: str,
        *,
        tokens: int | str = 32,
        threads: int | str = 1,
    ) -> list[str]:
        """Return the command line that continues `prompt`."""
        common = ["-m", str(model), "-p", prompt, "-n", str(tokens), "-t", str(threads)]
        if self.kind != "program":
            driver = [sys.executable, "-m", "ggscope_capture.driver"]
            return [*driver, "--libs", str(self.path), *common]
        name = self.path.name
        if name == "llama-simple":  # knows neither -p nor -t
            return [str(self.path), "-m", str(model), "-n", str(tokens), prompt]
        if name == "llama-bench":
            numbers = ["-p", "16", "-n", str(tokens), "-t", str(threads), "-r", "1"]
            return [str(self.path), "-m", str(model), *numbers]
        if name == "llama-server":
            return [str(self.path), "-m", str(model), "-t", str(threads)]
        # A warm-up would be traced as one more decode.
        plain = ["-no-cnv", "--no-warmup", "--ignore-eos", "--seed", "1", "--temp", "0"]
        return [str(self.path), *common, *plain, "-c", "512"]


def named(program: str) -> Target:
    """Return a program, or a llama.cpp library, as a target; raises DoctorError."""
    path = doctor.find(program)
    is_library = re.match(r"(libllama|xllamacpp).*\.(so|dylib)", path.name) is not None
    kind = "library" if is_library else "program"
    if path.is_dir():
        kind = "libraries"
    return Target(path=path.absolute(), kind=kind, origin="named")


def template(target: Target) -> list[str] | None:
    """Return `Target.command` with names in braces for what is to be filled in.

    None for a program that is none of llama.cpp's: its arguments are not known.
    """
    if target.kind == "program" and target.path.name not in PROGRAMS:
        return None
    return target.command("{model}", "{prompt}", tokens="{tokens}", threads="{threads}")


def home() -> Path:
    """Return the private folder for what `install` brings."""
    override = os.environ.get("GGSCOPE_CAPTURE_HOME")
    if override:
        return Path(override)
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/ggscope/capture").expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "ggscope" / "capture"


def cache() -> Path:
    """Return the folder of the source of llama.cpp and of what is built of it."""
    if sys.platform == "darwin":
        caches = Path("~/Library/Caches").expanduser()
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "ggscope" / f"llama.cpp-{SOURCE_VERSION}"


def find() -> list[Target]:
    """Return what is there, the best for a first trace first, each file once."""
    targets: dict[Path, Target] = {}
    for target in (*_programs(), *_installed()):
        targets.setdefault(target.path.resolve(), target)
    return list(targets.values())


def _programs() -> Iterator[Target]:
    places = [
        (Path(place), "PATH")
        for place in os.environ.get("PATH", "").split(os.pathsep)
        if place
    ]
    for folder in _FOLDERS:
        root = Path(folder).expanduser()
        builds = [root, root / "bin", *sorted(root.glob("build*/bin"))]
        places += [(place, folder) for place in builds]
    places += [(Path(place).expanduser(), place) for place in _PLACES]
    for name in PROGRAMS:
        for place, origin in places:
            path = place / name
            if path.is_file() and os.access(path, os.X_OK):
                yield Target(path=path, kind="program", origin=origin)


def _installed() -> Iterator[Target]:
    for path in sorted(home().glob("npm/node_modules/@node-llama-cpp/*/bins/*")):
        if any(path.glob("libllama.*")):
            yield Target(path=path, kind="libraries", origin="npm")
    for path in sorted(home().glob("pypi/xllamacpp/xllamacpp*.so")):
        yield Target(path=path, kind="library", origin="PyPI")
    for name in BUILT:
        path = cache() / "shared" / "bin" / name
        if path.is_file():
            yield Target(path=path, kind="program", origin="source")


def for_demo() -> Target:
    """Return a llama.cpp that continues a text and can be traced; installed if needed.

    Raises
    ------
    InstallError
        If there is none and neither npm nor pip brings one.
    """
    for target in find():
        if target.kind != "program":
            return target
        if target.path.name in _CONTINUES and _can_be_traced(target.path):
            return target
    reasons = []
    for origin in ("npm", "pypi"):
        try:
            return install(origin)
        except InstallError as error:
            reasons.append(str(error))
    raise InstallError("; ".join(reasons))


def _can_be_traced(program: Path) -> bool:
    try:
        return doctor.examine(program).works is True
    except doctor.DoctorError:
        return False


def install(origin: str) -> Target:
    """Bring an unmodified llama.cpp from "npm", "pypi" or "source".

    What is there already is taken. Nothing outside `home` and `cache` is written, but
    for the caches of npm and pip. Building from the source takes minutes.

    Raises
    ------
    InstallError
        If there is no such package for this machine, or the package manager fails.
    """
    if origin == "source":
        built = cache() / "shared" / "bin"
        if not all((built / name).is_file() for name in BUILT):
            built = build("shared", BUILT)
        return Target(path=built / BUILT[0], kind="program", origin=origin)
    for target in _installed():
        if target.origin.lower() == origin:
            return target
    folder = home() / origin
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InstallError(
            f"{folder} cannot be created: {files.reason_of(error)}"
        ) from error
    if origin == "npm":
        npm = shutil.which("npm")
        if npm is None:
            raise InstallError("npm is not installed; the PyPI package needs only pip")
        package = f"@node-llama-cpp/{_npm_platform()}@{NPM_VERSION}"
        flags = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"]
        command = [npm, "install", *flags, "--prefix", str(folder), package]
    else:
        package = f"xllamacpp=={PYPI_VERSION}"
        flags = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        flags += ["--no-deps", "--target", str(folder)]
        command = [*_pip(), "install", *flags, package]
    _install(package, command)
    for target in _installed():
        if target.origin.lower() == origin:
            return target
    raise InstallError(
        f"{package} was installed, but contains no llama.cpp for this platform"
    )


def source() -> Path:
    """Return the source of llama.cpp, brought by pip where it is not there.

    Raises
    ------
    InstallError
        If pip does not bring it, or it cannot be unpacked.
    """
    tree = cache() / "llama.cpp"
    if (tree / "CMakeLists.txt").is_file():
        return tree
    package = f"llama-cpp-python=={SOURCE_VERSION}"
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            flags = ["--quiet", "--disable-pip-version-check", "--no-binary", ":all:"]
            pip = [*_pip(), "download", *flags, "--no-deps"]
            _install(package, [*pip, "--dest", folder, package])
            for archive in Path(folder).glob("*.tar.gz"):
                with tarfile.open(archive) as packed:
                    packed.extractall(folder, filter="data")
            for folder_in_archive in Path(folder).glob("*/vendor/llama.cpp"):
                folder_in_archive.rename(tree)
    except (OSError, tarfile.TarError) as error:
        raise InstallError(f"{package} cannot be unpacked: {error}") from error
    if not tree.is_dir():
        raise InstallError(f"{package} was downloaded, but contains no llama.cpp")
    return tree


def build(kind: str, programs: Sequence[str], *options: str) -> Path:
    """Build programs of llama.cpp as it is; return the folder that they are in.

    Parameters
    ----------
    kind : "shared" (ggml and llama.cpp are libraries) or "static".
    options : more for cmake, such as ``-DGGML_RPC=ON``; a later call keeps them.

    Raises
    ------
    InstallError
        If there is no source, no cmake, or it does not compile.
    """
    cmake = shutil.which("cmake")
    if cmake is None:
        raise InstallError("cmake is not installed; it is needed to build llama.cpp")
    folder = cache() / kind
    shared = f"-DBUILD_SHARED_LIBS={'ON' if kind == 'shared' else 'OFF'}"
    make = ["-G", "Ninja"] if shutil.which("ninja") else []
    flags = ["-DCMAKE_BUILD_TYPE=Release", shared, *(f"-D{it}=OFF" for it in _WITHOUT)]
    where = ["-S", str(source()), "-B", str(folder)]
    _install("llama.cpp", [cmake, *where, *make, *flags, *options], _BUILD_S)
    jobs = str(os.cpu_count() or 1)
    goals = ["--target", *programs, "--parallel", jobs]
    _install("llama.cpp", [cmake, "--build", str(folder), *goals], _BUILD_S)
    return folder / "bin"


def _pip() -> list[str]:
    """Return the command of pip; raises InstallError where there is none.

    The bundle has no pip of its own: what it brings are libraries of any Python 3.
    """
    if not getattr(sys, "frozen", False):
        return [sys.executable, "-m", "pip"]
    python = shutil.which("python3")
    if python is None:
        raise InstallError(
            "python3 with pip is needed for the installation "
            "(Debian: apt-get install python3-pip)"
        )
    return [python, "-m", "pip"]


def _install(package: str, command: list[str], limit: int = _INSTALL_S) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit,
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InstallError(f"{package}: timeout after {limit // 60} minutes") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        lines = [line for line in lines if "complete log" not in line]
        reason = lines[-1].strip() if lines else "no reason given"
        raise InstallError(f"{package} cannot be installed: {reason}")


def _npm_platform() -> str:
    machine = platform.machine().lower()
    arch = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    if sys.platform == "darwin":
        return "mac-arm64-metal" if arch == "arm64" else "mac-x64"
    return f"linux-{arch}"
