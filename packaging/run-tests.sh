#!/bin/sh
# Run the whole test suite: everything offscreen first, then what needs OpenGL
# under Xvfb with Mesa's software renderer. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
export LIBGL_ALWAYS_SOFTWARE=1
export QT_LOGGING_RULES="qt.qpa.*=false"
unset WAYLAND_DISPLAY || true

if [ "$#" -gt 0 ]; then
    exec xvfb-run -a -s "-screen 0 1920x1200x24 +extension GLX" .venv/bin/pytest "$@"
fi

status=0
QT_QPA_PLATFORM=offscreen .venv/bin/pytest -q -n auto --dist worksteal \
    --ignore=tests/gl --ignore=tests/bench || status=$?
if [ "$(uname)" = Darwin ]; then
    .venv/bin/pytest -q tests/gl || status=$?
else
    QT_QPA_PLATFORM=xcb xvfb-run -a -s "-screen 0 1920x1200x24 +extension GLX" \
        .venv/bin/pytest -q tests/gl || status=$?
fi
exit "$status"
