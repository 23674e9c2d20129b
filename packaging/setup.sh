#!/bin/sh
# Set up what `make run` and `make test` need.
#   setup.sh python PYTHON VENV   make the virtual environment
#   setup.sh system VENV          check and install system libraries
set -eu

say() { printf '%s\n' "ggscope set-up: $*" >&2; }
fail() { say "$*"; exit 1; }

setup_python() {
    python=$1 venv=$2
    command -v "$python" >/dev/null 2>&1 || fail "'$python' not found; install Python 3.11 or newer, or say PYTHON=/path/to/python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$("$python" --version) is too old; Python 3.11 or newer is needed (say PYTHON=/path/to/python3.11)"
    if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making the virtual environment $venv"
        if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
            rm -rf "$venv"
            install_packages python3-venv || fail "the venv module is missing; run: sudo apt-get install python3-venv"
            "$python" -m venv "$venv"
        fi
    fi
    say "installing packages (some 300 MB the first time)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[sql,test,lint]'
}

# Libraries that the Qt wheels expect from the system, one probe each.
missing_libraries() {
    "$1/bin/python" - <<'PY'
import ctypes
import ctypes.util
import shutil
import subprocess
import sys

if not sys.platform.startswith("linux"):
    raise SystemExit
wanted = {
    "libEGL.so.1": "libegl1", "libGL.so.1": "libgl1", "libOpenGL.so.0": "libopengl0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0", "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4", "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1", "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0", "libxcb-xkb.so.1": "libxcb-xkb1",
    "libdbus-1.so.3": "libdbus-1-3", "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
}
missing = []
for name, package in wanted.items():
    try:
        ctypes.CDLL(name)
    except OSError:
        missing.append(package)
if shutil.which("Xvfb") is None:
    missing.append("xvfb")
# A window manager and a hand on keys and mouse, for tests/touch.
missing += [tool for tool in ("openbox", "xdotool") if shutil.which(tool) is None]
if shutil.which("xauth") is None:
    missing.append("xauth")
lister = shutil.which("fc-list")
if lister is None:
    missing.append("fontconfig")
if lister is None or not subprocess.run([lister], capture_output=True).stdout.strip():
    missing.append("fonts-dejavu-core")
print(" ".join(missing))
PY
}

install_packages() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo -n"; else return 1; fi
    say "installing with apt-get: $*"
    $sudo apt-get update -qq >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# What a desktop has and the tests of the double click ask; without them these are
# skipped, and say so.
desktop_tools() {
    [ "$(uname)" = Linux ] || return 0
    tools=""
    for pair in desktop-file-validate:desktop-file-utils update-mime-database:shared-mime-info \
        xdg-open:xdg-utils appstreamcli:appstream gio:libglib2.0-bin \
        mimetype:libfile-mimeinfo-perl xev:x11-utils; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || tools="$tools ${pair#*:}"
    done
    # shellcheck disable=SC2086
    [ -z "$tools" ] || install_packages $tools || say "not there, and their tests are skipped:$tools"
}

setup_system() {
    desktop_tools
    missing=$(missing_libraries "$1")
    [ -n "$missing" ] || return 0
    # Mesa's software OpenGL serves the tests and machines without a GPU.
    # shellcheck disable=SC2086
    if install_packages $missing libgl1-mesa-dri; then return 0; fi
    say "these system packages are missing: $missing"
    if command -v dnf >/dev/null 2>&1; then
        say "run: sudo dnf install mesa-libEGL mesa-libGL mesa-dri-drivers libxkbcommon-x11 xcb-util-cursor xcb-util-image xcb-util-keysyms xcb-util-renderutil xcb-util-wm xorg-x11-server-Xvfb openbox xdotool xauth fontconfig dejavu-sans-fonts"
    elif command -v pacman >/dev/null 2>&1; then
        say "run: sudo pacman -S mesa libxkbcommon-x11 xcb-util-cursor xcb-util-image xcb-util-keysyms xcb-util-renderutil xcb-util-wm xorg-server-xvfb openbox xdotool xorg-xauth fontconfig ttf-dejavu"
    else
        say "run: sudo apt-get install $missing libgl1-mesa-dri"
    fi
    exit 1
}

cd "$(dirname "$0")/.."
case "${1:-}" in
    python) setup_python "$2" "$3" ;;
    system) setup_system "$2" ;;
    *) fail "usage: setup.sh python PYTHON VENV | system VENV" ;;
esac
