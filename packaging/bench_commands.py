"""Measure how long commands take to start, against ``import numpy``.

`bench_commands.py FOLDER [ROUNDS [PYTHON …]]` runs each of them so often, one after the
other, and prints JSON: medians of the times that `import numpy` takes, in processor
time (``_cpu_x``) and by the clock (``_wall_x``), which hold on any machine. Further
interpreters are of other states of the program, marked by ``@1`` and so on.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"
SMALL_BYTES = 2048
ROUNDS = 9


def small_file(folder: Path) -> Path:
    """Return a trace of two kilobytes."""
    path = folder / "small.ggmlviz"
    path.write_bytes(SAMPLE.read_bytes()[:SMALL_BYTES])
    return path


def run(command: list[str]) -> tuple[float, float]:
    """Return (processor time, time by the clock) of a command, in seconds."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, wall


def main(arguments: list[str]) -> int:
    """Measure, print."""
    small = str(small_file(Path(arguments[0])))
    rounds = max(int(arguments[1]), ROUNDS) if len(arguments) > 1 else ROUNDS
    commands = {"numpy": [sys.executable, "-c", "import numpy"]}
    for i, python in enumerate([sys.executable, *arguments[2:]]):
        mark = f"@{i}" if i else ""
        own = [python, "-m", "ggscope"]
        commands |= {
            f"info{mark}": [*own, "info", small],
            f"version{mark}": [*own, "--version"],
        }
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for command in commands.values():
        run(command)  # writes byte code, warms the page cache
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            seconds[name].append(run(command))
    figures = {}
    for name in list(commands)[1:]:
        pairs = list(zip(seconds[name], seconds["numpy"], strict=True))
        for j, kind in enumerate(("cpu_x", "wall_x")):
            figures[f"{name}_{kind}"] = round(median(a[j] / b[j] for a, b in pairs), 2)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
