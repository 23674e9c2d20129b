"""Measure what tracing costs: `make bench-capture`.

First the direct measure, ns per record: a made-up ggml whose ops do nothing, with the
tracer absent, loaded and off, and on. Then tokens per second of an unmodified llama.cpp
(npm) on a model of 158 million parameters, and on a small one, whose ops are so short
that it is the worst case; in pairs in random order. The difference of like runs is
printed beside it as the noise floor. What is counted per second of a core, by the
process's own time, is disturbed less by other programs. Figures belong to the machine.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ggscope_capture import models, targets
from ggscope_capture.native import build

FAKE = Path(__file__).parent.parent / "tests" / "capture" / "fake_ggml.c"
NODES = 400
_MAX_TOKENS = 480
"""Of the small model, whose tokens are short; they fit the driver's context."""


def direct(folder: Path, rounds: int) -> None:
    """Print ns per op of the made-up ggml."""
    library, program = folder / "libggml-fake.so", folder / "fake"
    for options, out in ((["-fPIC", "-shared"], library), (["-DPROGRAM"], program)):
        subprocess.run(["cc", "-O2", FAKE, *options, "-o", out, "-ldl"], check=True)
    tracer = str(build.FOLDER / build.NAME)
    ring = folder / "ring"
    common = {**os.environ, "FAKE_GGML": str(library), "GGSCOPE_RING": str(ring)}
    ways = {
        "absent": {},
        "loaded and off": {"LD_PRELOAD": tracer, "GGSCOPE_ENABLED": "0"},
        "on": {"LD_PRELOAD": tracer, "GGSCOPE_RING_MODE": "overwrite"},
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in random.sample(sorted(ways), len(ways)):
            line = [str(program), str(NODES), "3000"]
            result = subprocess.run(
                line, env=common | ways[way], capture_output=True, check=True
            )
            times[way].append(float(result.stdout))
            for path in folder.glob("ring*"):
                path.unlink()
    absent = statistics.median(times["absent"])
    print(f"direct: {NODES} ops a graph, the fastest of 3,000 graphs, {rounds} rounds")
    for way, values in times.items():
        middle = statistics.median(values)
        more = "" if way == "absent" else f", {middle - absent:+.1f} ns per record"
        print(f"  {way:15} {middle:6.1f} ns per op{more}")


def one_run(library: str, model: str, n: int, threads: int) -> None:
    """Print tokens per second, and per second of a core, without load and prompt."""
    from ggscope_capture.driver import Llama, Run

    llama = Llama(Path(library), quiet=True)
    loaded = llama.load_model(Path(model))
    run = Run(llama, loaded, threads)
    prompt = llama.tokens(loaded, "once")
    run.generate(prompt, 2, show=False)
    begin, busy = time.perf_counter(), time.process_time()
    run.generate(run.steps[-1], n, show=False)
    print(n / (time.perf_counter() - begin), n / (time.process_time() - busy))


def pairs(folder: Path, name: str, n_pairs: int, n: int, threads: int) -> None:
    """Print tokens per second without, with the tracer off and on."""
    try:
        target = targets.install("npm")
    except targets.InstallError as error:
        print(f"pairs: {error}")
        return
    model = folder / f"{name}.gguf"
    models.write_model(model, name)
    tracer = str(build.FOLDER / build.NAME)
    ring = str(folder / "ring")
    on = {"GGML_BACKEND_PATH": tracer, "GGSCOPE_RING": ring,
          "GGSCOPE_RING_MODE": "overwrite"}  # fmt: skip
    ways = {"without": {}, "without again": {}, "off": {**on, "GGSCOPE_ENABLED": "0"}}
    ways["on"] = on
    line = [sys.executable, __file__, "--run", str(target.path), str(model)]
    times: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(n_pairs):
        for way in random.sample(sorted(ways), len(ways)):
            result = subprocess.run(
                [*line, str(n), str(threads)], env={**os.environ, **ways[way]},
                capture_output=True, check=True, text=True,
            )  # fmt: skip
            times[way].append([float(word) for word in result.stdout.split()])
            for path in folder.glob("ring*"):
                path.unlink()
    print(
        f"tokens, {target.path.name}, model {name}, {n} tokens, -t {threads}, "
        f"{n_pairs} rounds in random order"
    )
    for column, of in enumerate(("a second", "a second of a core")):
        print(f" {of}")
        for way, rows in times.items():
            values = [row[column] for row in rows]
            text = f"  {way:15} {statistics.median(values):7.1f}"
            if way != "without":
                both = zip(rows, times["without"], strict=True)
                differences = sorted(
                    100 * (row[column] / plain[column] - 1) for row, plain in both
                )
                quarter = len(differences) // 4
                low, high = differences[quarter], differences[-1 - quarter]
                middle = statistics.median(differences)
                text += (
                    f"   {middle:+.1f} % (half of the pairs: {low:+.1f} to {high:+.1f})"
                )
                text += "  <- noise floor" if way == "without again" else ""
            print(text)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        library, model, n, threads = options.run
        one_run(library, model, int(n), int(threads))
        return
    build.compile_tracer(build.FOLDER / build.NAME)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        direct(Path(scratch), options.rounds)
    if options.pairs:
        with tempfile.TemporaryDirectory() as scratch:
            folder, n = Path(scratch), options.pairs
            pairs(folder, "bench", n, options.tokens, options.threads)
            pairs(folder, "dense", n, _MAX_TOKENS, options.threads)


if __name__ == "__main__":
    main()
