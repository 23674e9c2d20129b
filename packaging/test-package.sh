#!/bin/bash
# Try the package as somebody gets it: in a fresh minimal Debian root, without Python,
# Qt and compiler.
#   packaging/test-package.sh [dist/ggscope_*.deb]
# Needs debootstrap and the rights of root (sudo). In the environment:
#   GGSCOPE_ROOT=DIR   a root to be used and kept; else one is made and removed
#   WINDOW=no          leaves out what needs Xvfb in there
#   LLAMA=pypi         where the llama.cpp of the demo comes from; npm
# Ends with 77 where it cannot be tried here, and says what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'test-package: %s\n' "$*" >&2; }
skip() { say "not tried: $*"; exit 77; }
fail() { say "FAILED: $*"; exit 1; }

deb=${1:-$(ls -t dist/ggscope_*.deb 2>/dev/null | head -1)}
[ -n "$deb" ] && [ -f "$deb" ] || skip "there is no package; run: make package"
[ "$(id -u)" = 0 ] || skip "a root for the test needs the rights of root; run: sudo $0"
command -v debootstrap >/dev/null || skip "debootstrap is missing; run: apt-get install debootstrap"

if [ -n "${GGSCOPE_ROOT:-}" ]; then
    root=$GGSCOPE_ROOT
else
    root=$(mktemp -d /var/tmp/ggscope-root.XXXXXX)
fi
leave() {
    umount "$root/proc" 2>/dev/null || true
    umount "$root/dev/shm" 2>/dev/null || true
    [ -n "${GGSCOPE_ROOT:-}" ] || rm -rf --one-file-system "$root"
}
trap leave EXIT
if [ ! -x "$root/usr/bin/dpkg" ]; then
    say "making a minimal root in $root"
    debootstrap --variant=minbase bookworm "$root" >"$root.log" 2>&1 ||
        { tail -5 "$root.log" >&2; skip "debootstrap failed, perhaps there is no network"; }
    rm -f "$root.log"
fi
mkdir -p "$root/proc" "$root/dev/shm"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev/shm" || mount -t tmpfs tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
for name in http_proxy https_proxy; do
    [ -z "${!name:-}" ] || echo "Acquire::${name%_proxy}::Proxy \"${!name}\";" >>"$root/etc/apt/apt.conf.d/90proxy"
done
# A clean environment, and a person's own folder that is new.
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TMPDIR=/tmp "$@"; }

rm -rf "$root/root/.local" "$root/root/.config" "$root/root/.cache" "$root/tmp/demo" # of a run before
say "installing $(basename "$deb") with what it depends on"
cp "$deb" "$root/tmp/ggscope.deb"
inside apt-get update -qq
inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    /tmp/ggscope.deb >"$root/tmp/apt.log" 2>&1 || { tail -20 "$root/tmp/apt.log" >&2; fail "it does not install"; }

for program in python3 python gcc cc clang qmake6; do
    ! inside sh -c "command -v $program" >/dev/null 2>&1 || fail "$program is there: this root proves nothing"
done
! inside sh -c 'ls /usr/lib/*/libQt6*' >/dev/null 2>&1 || fail "Qt is there: this root proves nothing"
say "no Python, no compiler, no Qt; installed size $(inside dpkg-query -W -f '${Installed-Size}' ggscope) KiB"

say "ggscope self-test"
inside ggscope self-test || fail "self-test"
inside ggscope --version
inside ggscope-capture --help >/dev/null
say "figures and readers"
sample=/usr/lib/ggscope/_internal/ggscope/resources/samples/llama.ggmlviz
for format in png svg pdf; do
    inside ggscope export --view timeline "$sample" -o "/tmp/figure.$format" --force >/dev/null
    [ "$(stat -c %s "$root/tmp/figure.$format")" -gt 3000 ] || fail "figure.$format is nearly empty"
done
inside ggscope convert --to perfetto "$sample" -o /tmp/run.pftrace --force >/dev/null ||
    fail "convert --to perfetto"
inside ggscope stats "$sample" --by op --json >/dev/null
inside ggscope readers | grep -q ggmlviz || fail "readers"
inside ggscope info --system | grep -q 'frozen.*yes' || fail "info --system"
say "the tracer, on programs that are no llama.cpp"
inside ggscope-capture doctor /bin/true >/dev/null 2>"$root/tmp/doctor.txt" || true
! grep -qi traceback "$root/tmp/doctor.txt" || fail "doctor: $(tail -1 "$root/tmp/doctor.txt")"
[ "$(inside ggscope-capture run -o /tmp/run.bin -- /bin/sh -c 'echo "$LD_LIBRARY_PATH"' 2>/dev/null)" = "" ] ||
    fail "programs that are traced get the libraries of the bundle"
say "models and the demo"
inside ggscope-capture models /tmp/models >/dev/null 2>"$root/tmp/models.txt" ||
    fail "models: $(tail -1 "$root/tmp/models.txt")"
[ -s "$root/tmp/models/dense.gguf" ] || fail "models: there is no dense.gguf"
# Nothing here can bring a llama.cpp: that is said in a sentence.
! inside ggscope-capture demo /tmp/demo >/dev/null 2>"$root/tmp/demo.txt" || fail "a demo of nothing"
grep -q "python3 with pip is needed" "$root/tmp/demo.txt" || fail "demo says: $(tail -1 "$root/tmp/demo.txt")"
# With one brought from outside it runs without Python.
capture_home=root/.local/share/ggscope/capture
if GGSCOPE_CAPTURE_HOME="$root/$capture_home" "$root/usr/lib/ggscope/ggscope-capture" \
    targets --install "${LLAMA:-npm}" >/dev/null 2>"$root/tmp/targets.txt"; then
    inside ggscope-capture demo /tmp/demo --model nano --tokens 8 >/dev/null 2>"$root/tmp/demo.txt" ||
        fail "demo: $(tail -1 "$root/tmp/demo.txt")"
    inside ggscope check --strict /tmp/demo/nano.bin >/dev/null || fail "the trace of the demo is not good"
else
    say "not tried: the demo with a llama.cpp ($(tail -1 "$root/tmp/targets.txt"))"
fi
say "without a display"
inside ggscope "$sample" >/dev/null 2>"$root/tmp/none.txt" && fail "a window without a display"
grep -q "no display" "$root/tmp/none.txt" || fail "without a display it says: $(cat "$root/tmp/none.txt")"

if [ "${WINDOW:-yes}" != no ]; then
    say "installing Xvfb and a desktop's tools for the window"
    if inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        xvfb xauth xdotool libgl1-mesa-dri shared-mime-info desktop-file-utils xdg-utils \
        libglib2.0-bin >"$root/tmp/apt.log" 2>&1; then
        cp packaging/linux/try-window.sh "$root/tmp/"
        inside sh /tmp/try-window.sh "$sample" || fail "the window"
    else
        say "not tried: the window (Xvfb does not install: $(tail -1 "$root/tmp/apt.log"))"
    fi
fi
say "removing it"
inside apt-get purge -y -qq ggscope >/dev/null 2>&1 || fail "it does not go"
[ ! -e "$root/usr/lib/ggscope" ] && [ ! -e "$root/usr/bin/ggscope" ] || fail "it leaves files behind"
say "passed."
