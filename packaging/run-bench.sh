#!/bin/sh
# Measure ggscope on synthetic traces, in the real window under Xvfb with Mesa's
# software renderer: `make bench`, `make bench SIZE=33`. Arguments go to bench.py.
set -eu
cd "$(dirname "$0")/.."
export LIBGL_ALWAYS_SOFTWARE=1
export QT_LOGGING_RULES="qt.qpa.*=false"
# Byte code is kept as it is for a person, but outside of the source folders.
export PYTHONPYCACHEPREFIX="$PWD/build/bench-bytecode"
unset WAYLAND_DISPLAY PYTHONDONTWRITEBYTECODE || true
if [ "$(uname)" = Darwin ]; then
    exec .venv/bin/python packaging/bench.py "$@"
fi
export QT_QPA_PLATFORM=xcb
exec xvfb-run -a -s "-screen 0 2048x1400x24 +extension GLX" \
    .venv/bin/python packaging/bench.py "$@"
