#!/bin/sh
# Run the test suite: everything offscreen first, then under Xvfb what needs
# OpenGL (Mesa's software renderer) and what needs real keys and mouse, at 100 and
# 200 %. Arguments go to pytest. In the environment:
#   TIER=fast          what needs no program, no window and no waiting alone
#   TIER=nightly       what takes too long for every change: whole sweeps, benchmarks
#   PROCESSES=N        so many at once for what needs no display; as many as cores
#   SEED=N             in random order, with random examples; the same for one number
#   GGSCOPE_CORPUS=DIR the reference traces; `none` runs without them
#   ONLY=corpus        those that may look for them alone: no other depends on them
#   DISPLAYS=no        leaves out what needs a display
set -eu
cd "$(dirname "$0")/.."
# Byte code is kept as it is for a person, but outside of the source folders: the tests
# start hundreds of programs, and every process of pytest reads all tests.
export PYTHONPYCACHEPREFIX="$PWD/build/test-bytecode"
export LIBGL_ALWAYS_SOFTWARE=1
export QT_LOGGING_RULES="qt.qpa.*=false"
unset WAYLAND_DISPLAY PYTHONDONTWRITEBYTECODE || true

order="-p no:randomly"
# Examples of property tests too, or nobody can run again what has failed.
[ -z "${SEED:-}" ] || order="-p randomly --randomly-seed=$SEED --hypothesis-seed=$SEED"
# shellcheck disable=SC2086
tests() { .venv/bin/pytest -q $order "$@" || status=$?; }
status=0
if [ "$#" -gt 0 ]; then
    unset QT_QPA_PLATFORM || true
    # shellcheck disable=SC2086
    exec xvfb-run -a -s "-screen 0 3600x2200x24 +extension GLX" \
        .venv/bin/pytest $order "$@"
fi

if [ "${TIER:-}" = fast ]; then
    QT_QPA_PLATFORM=offscreen tests -n "${PROCESSES:-auto}" --dist worksteal \
        -m "not slow and not nightly" --ignore=tests/unit/live \
        tests/contract tests/unit tests/property tests/golden
    exit "$status"
elif [ "${TIER:-}" = nightly ]; then
    GGSCOPE_SWEEP=1 QT_QPA_PLATFORM=offscreen tests -n "${PROCESSES:-auto}" \
        --dist worksteal --timeout=1200 tests/fuzz tests/unit/live/test_removal.py \
        tests/unit/readers/recording
    QT_QPA_PLATFORM=offscreen tests -m nightly --timeout=1200 tests/cli
    QT_QPA_PLATFORM=offscreen tests tests/bench --timeout=1200 --benchmark-disable-gc
    exit "$status"
fi
QT_QPA_PLATFORM=offscreen tests -n "${PROCESSES:-auto}" --dist worksteal \
    -m "not nightly" --ignore=tests/gl --ignore=tests/touch --ignore=tests/bench
if [ "${DISPLAYS:-yes}" = no ]; then
    :
elif [ "$(uname)" = Darwin ]; then
    tests tests/gl
else
    # shellcheck disable=SC2086
    QT_QPA_PLATFORM=xcb xvfb-run -a -s "-screen 0 1920x1200x24 +extension GLX" \
        .venv/bin/pytest -q $order tests/gl || status=$?
    # Both scales at once: half of the time they wait for windows. By xargs, because what
    # a shell puts into the background ignores SIGINT, and so would all that it starts.
    # Each looks for a free display from a number of its own, or both find the same.
    at_once=2
    [ "${PROCESSES:-}" != 1 ] || at_once=1
    # shellcheck disable=SC2016
    printf '%s\n' 1 2 | order=$order xargs -P "$at_once" -I SCALE sh -c '
        failed=0
        said=$(QT_SCALE_FACTOR=SCALE QT_QPA_PLATFORM=xcb xvfb-run -a -n SCALE50 \
            -s "-screen 0 3600x2200x24 +extension GLX" \
            .venv/bin/pytest -q $order tests/touch 2>&1) || failed=1
        printf "At SCALE00 %%:\n%s\n" "$said"
        exit "$failed"' || status=$?
fi
exit "$status"
