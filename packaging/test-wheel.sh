#!/bin/bash
# Install wheel and source distribution as people do, each into a fresh environment:
# the wheel with every Python that is here, without a compiler; the source with a
# compiler, and without one, where one plain sentence has to say what is missing.
#   packaging/test-wheel.sh [WHEEL [SOURCE]]
#   PYTHONS="python3.11 python3.13"   interpreters to try; all that are found
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'test-wheel: %s\n' "$*" >&2; }
fail() { say "FAILED: $*"; exit 1; }
wheel=${1:-$(ls -t dist/ggscope-*-py3-none-*.whl 2>/dev/null | head -1)}
source=${2:-$(ls -t dist/ggscope-*.tar.gz 2>/dev/null | head -1)}
[ -f "$wheel" ] && [ -f "$source" ] || { say "there is nothing to try; run: make wheel"; exit 77; }
wheel=$(realpath "$wheel") source=$(realpath "$source")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

found=""
for python in ${PYTHONS:-python3.11 python3.12 python3.13 python3.14 python3}; do
    place=$(command -v "$python") || continue
    version=$("$place" -c 'import sys; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 11) else "old")' 2>/dev/null) || continue
    case " $found old " in *" $version "*) continue ;; esac
    "$place" -m venv "$work/$version" 2>/dev/null || { say "$version has no venv"; continue; }
    found="$found $version"
done
[ -n "$found" ] || fail "no Python 3.11 or newer"

# A folder with what an installation needs of programs, and no compiler.
mkdir "$work/bin"
for program in sh env uname ldd ldconfig; do
    place=$(command -v "$program") && ln -s "$place" "$work/bin/$program"
done

try() { # NAME: the installation in $work/NAME works
    (cd "$work" && "$work/$1/bin/ggscope" self-test >"$work/said" 2>&1) || { cat "$work/said" >&2; fail "self-test of $1"; }
    (cd "$work" && "$work/$1/bin/ggscope" --version && "$work/$1/bin/ggscope-capture" --help) >/dev/null || fail "$1: a command is missing"
    [ "$(uname)" != Linux ] || [ -f "$(echo "$work/$1"/lib/python*/site-packages/ggscope_capture/native/_tracer.so)" ] || fail "$1 has no tracer"
    [ "$(uname)" != Linux ] || [ -f "$(echo "$work/$1"/lib/python*/site-packages/ggscope_capture/native/_cuda.so)" ] || fail "$1 has no hook of CUDA calls"
}

for version in $found; do
    env PATH="$work/bin" CC=/nonexistent "$work/$version/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" ||
        fail "the wheel does not install with Python $version"
    try "$version"
    say "wheel, Python $version, no compiler: good"
done

first=${found# }
first=${first%% *}
"$work/$first/bin/python" -m pip uninstall --quiet --yes ggscope
"$work/$first/bin/python" -m pip install --quiet --disable-pip-version-check "$source" || fail "the source does not install"
try "$first"
say "source, Python $first, with a compiler: good"

"$work/$first/bin/python" -m pip uninstall --quiet --yes ggscope
if env PATH="$work/bin" CC=no-such-compiler "$work/$first/bin/python" -m pip install --quiet \
    --disable-pip-version-check --no-cache-dir "$source" >"$work/said" 2>&1; then
    fail "the source installs without a compiler"
fi
grep -q "building from source needs a C compiler" "$work/said" || { tail -20 "$work/said" >&2; fail "without a compiler it does not say so"; }
say "source, Python $first, no compiler: says $(grep -o 'building from source.*' "$work/said" | head -1)"
say "passed."
