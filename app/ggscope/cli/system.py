"""``ggscope info --system``: versions and graphics, for bug reports."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from argparse import Namespace

from ggscope import __version__
from ggscope.assets import PACKAGES
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.readers import plugins, registry
from ggscope.sanitize import one_line

_VARIABLES = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_SESSION_TYPE",
    "QT_QPA_PLATFORM",
    "QT_SCALE_FACTOR",
    "LIBGL_ALWAYS_SOFTWARE",
    "LANG",
    plugins.SAFE_VARIABLE,
)
_PROBE_SECONDS = 20


def run(arguments: Namespace) -> int:
    """Print the report; return the exit code."""
    report = system_report()
    if arguments.json:
        output.emit_json(report)
        return GOOD
    lines = []
    for title, values in report.items():
        lines.append(output.styled(title, "bold"))
        width = max((len(name) for name in values), default=0)
        lines += [
            f"  {name.ljust(width)}  {one_line(text)}" for name, text in values.items()
        ]
    output.emit("\n".join(lines))
    return GOOD


def system_report() -> dict[str, dict[str, str]]:
    """Return what a bug report needs, by section; nothing personal is in it."""
    return {
        "program": {
            "ggscope": __version__,
            "python": f"{platform.python_version()} ({sys.implementation.name})",
            "frozen": "yes" if getattr(sys, "frozen", False) else "no",
        },
        "system": {
            "platform": platform.platform(),
            "machine": platform.machine(),
            "processors": str(os.cpu_count()),
            "memory": _memory(),
        },
        "packages": {name: _version(name) for name in PACKAGES},
        "graphics": _graphics(),
        "readers": {
            status.info.id if status.info else status.path: (
                f"{status.origin}, {status.status}"
            )
            for status in registry.statuses()
        },
        "environment": {
            name: os.environ[name] for name in _VARIABLES if name in os.environ
        },
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _memory() -> str:
    import psutil

    from ggscope.model.units import format_bytes

    memory = psutil.virtual_memory()
    return f"{format_bytes(memory.total)}, {format_bytes(memory.available)} free"


def _graphics() -> dict[str, str]:
    """Ask a child process: a broken driver may end the process that asks."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return {"OpenGL": "not asked: there is no display"}
    program = [sys.executable]
    if not getattr(sys, "frozen", False):
        program += ["-m", "ggscope"]
    try:
        done = subprocess.run(
            [*program, "self-test", "--probe-gl"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        reply = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return {"OpenGL": f"not known: {type(error).__name__}"}
    if not isinstance(reply, dict):
        return {"OpenGL": f"not available (exit code {done.returncode})"}
    return {str(name): str(text) for name, text in reply.items()}
