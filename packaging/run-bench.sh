#!/bin/sh
# Measure ggscope on synthetic traces: `make bench`, `make bench SIZE=10`.
# First the analyses alone, then the real window; prints tables and one line of JSON.
set -eu
cd "$(dirname "$0")/.."
export LIBGL_ALWAYS_SOFTWARE=1 PYTHONDONTWRITEBYTECODE=1
.venv/bin/pytest -q tests/bench --benchmark-only --benchmark-disable-gc \
    --benchmark-columns=median,min,max,rounds --benchmark-sort=name --timeout=0
exec xvfb-run -a -s "-screen 0 1920x1200x24 +extension GLX" \
    .venv/bin/python packaging/bench.py "${1:-1}"
