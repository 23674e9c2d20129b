"""Measure what a person waits for: the window, the first picture, each frame.

    python packaging/bench.py [--size 1,10] [--only bin,npu] [--write-baseline]

Every figure is the median of five runs, each in a process of its own. Prints a table
and one line of JSON. The first run on a machine stores its figures as the baseline of
this machine; later ones fail where a figure is more than 30 % worse than that. See
resources/docs/performance.md.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bench_report
import platformdirs
from bench_compare import confirmed, regressions
from bench_figures import (
    ANSWERS,
    CHROME,
    N_EVENTS,
    N_LINES,
    N_QUERIED,
    N_ROWS,
    PACKETS,
    SIZES,
    Figure,
    figures,
    millions,
)
from bench_moe import session_files
from bench_traces import TraceFile, lacking_bytes, provide, trace_file

import ggscope
from ggscope.atomic_write import make_folder, write_file
from ggscope.cli.bench import median_figures

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = Path(os.environ.get("GGSCOPE_BENCH_DIR", ROOT / "build" / "bench"))
SAMPLE = ROOT / "resources" / "samples" / "llama.ggmlviz"
KINDS = (
    "commands",
    "start",
    "bin",
    "ggmlviz",
    "npu",
    "chrome",
    "perfetto",
    "pftrace",
    "nsys",
    "logs",
    "sql",
    "moe",
    "table",
    "answers",
    "bytes",
    "many",
    "live",
    "columns",
)
PANES = ("--panes", "--renderer", "raster")
"""How sessions of a run, its model and its graph are opened."""
TIMEOUT_S = 1800
_BY_COUNT = (
    ("chrome", CHROME),
    ("pftrace", PACKETS),
    ("nsys", N_ROWS),
    ("logs", N_LINES),
)

Values = dict[str, float]


def main() -> int:
    """Measure, print, compare."""
    arguments = _arguments()
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = _files(arguments)
    lacking = lacking_bytes(list(files.values()), FOLDER)
    if lacking:
        report(
            f"the traces need {lacking / 1e9:.1f} GB more in {FOLDER} than the disk "
            "has. Free some, name another folder by GGSCOPE_BENCH_DIR, or choose "
            "smaller ones by SIZE."
        )
        return 1
    paths = {name: _provided(file) for name, file in files.items()}
    bench = Bench(arguments, paths)
    baseline_path = arguments.baseline or own_baseline_path()
    baseline = _baseline(baseline_path)
    if baseline is not None and baseline["machine"] != machine():
        report(f"{baseline_path} is of another machine and not compared with.")
        baseline = None
    if baseline is not None:
        usual = sum(baseline["seconds"].get(source, 0.0) for source in bench.sources)
        report(f"takes about {usual / 60:.0f} minutes, going by the last baseline.")
    rates = bench.rates()
    values: Values = {}
    for source in bench.sources:
        values |= bench.measure(source)
    seconds = dict(bench.seconds)
    known = figures(arguments.size, bench.column_names(values))
    worse = []
    if baseline is not None and not arguments.write_baseline:
        look = partial(regressions, known, before=baseline["figures"])
        worse = confirmed(lambda now: look(now=now), values, bench.measure, seconds)
    _print(known, values, rates, is_markdown=arguments.markdown)
    result = {
        "ggscope": ggscope.__version__, "machine": machine(), "about": bench.about,
        "rounds": arguments.rounds, "limits": rates, "seconds": seconds,
        "figures": values, "regressions": [str(regression) for regression in worse],
    }  # fmt: skip
    print(json.dumps(result))
    _keep(baseline_path, result, baseline, is_new=arguments.write_baseline)
    if worse:
        report("worse than the baseline by more than 30 %:")
        for regression in worse:
            report(f"  {regression}")
        return 1
    return 0


class Bench:
    """The measurements, by source: a trace, or a group of benchmarks.

    Attributes
    ----------
    sources : name -> function that measures once more.
    about : name -> what the figures were taken with: canvas, rows, renderer.
    seconds : name -> how long measuring it took, the last time.
    """

    def __init__(
        self, arguments: argparse.Namespace, paths: Mapping[str, Path]
    ) -> None:
        self._rounds = arguments.rounds
        # What takes seconds each time is measured three times at most.
        self._few = min(arguments.rounds, 3)
        self._seconds = arguments.seconds
        self._paths = paths
        self.about: dict[str, dict[str, object]] = {}
        self.seconds: dict[str, float] = {}
        self.sources: dict[str, Callable[[], Values]] = {}
        if "commands" in arguments.only:
            work = partial(self._script, HERE / "bench_commands.py", FOLDER)
            self.sources["commands"] = work
        if "start" in arguments.only:
            self.sources["start"] = partial(self._opened, "start", SAMPLE, 0.5)
        for name, path in paths.items():
            kind = next(
                (k for k in ("bin", "chrome", "pftrace") if name.startswith(k)), name
            )
            if kind in arguments.only:
                work = partial(self._opened, name, path, self._seconds)
                self.sources[name] = work
        for name in CHROME if "perfetto" in arguments.only else ():
            if name in paths:
                script = HERE / "bench_perfetto.py"
                source = f"perfetto-{name}"
                work = partial(self._of_peer, source, script, paths[name])
                self.sources[source] = work
        if "sql" in arguments.only:
            work = partial(self._script, HERE / "bench_sql.py", paths["queried"])
            self.sources["sql"] = work
        for size in arguments.size if "moe" in arguments.only else ():
            work = partial(self._session, f"moe{size}", paths[f"moe{size}"])
            self.sources[f"moe{size}"] = work
        if "table" in arguments.only:
            script = HERE / "bench_analysis.py"
            work = partial(self._script, script, _table_path(paths))
            self.sources["table"] = work
        for name in ANSWERS if "answers" in arguments.only else ():
            if name in paths:
                work = partial(self._script, HERE / "bench_answers.py", paths[name])
                self.sources[name] = work
        for size in arguments.size if "bytes" in arguments.only else ():
            script = HERE / "bench_bytes.py"
            work = partial(self._script, script, paths[f"moe{size}"].parent)
            self.sources[f"bytes{size}"] = work
        if "many" in arguments.only:
            work = partial(self._script, HERE / "bench_many.py", FOLDER)
            self.sources["many"] = work
        if "live" in arguments.only:
            work = partial(self._script, HERE / "bench_live.py", FOLDER)
            self.sources["live"] = work
        if "columns" in arguments.only:
            self.sources["columns"] = self._columns

    def measure(self, source: str) -> Values:
        """Return the figures of a source: ``source.name`` -> median."""
        begin = time.perf_counter()
        report(f"{source} …")
        figures = self.sources[source]()
        self.seconds[source] = round(time.perf_counter() - begin, 1)
        report(f"{source}: {self.seconds[source]:.0f} s")
        return {f"{source}.{name}": value for name, value in figures.items()}

    def rates(self) -> Values:
        """Return the limits of the machine."""
        report("limits of this machine …")
        records = [p for name, p in self._paths.items() if name.startswith("bin")]
        largest = max(records, key=lambda path: path.stat().st_size, default=None)
        others = (self._paths.get(name) for name in N_EVENTS)
        chosen = [str(path or "") for path in (largest, *others)]
        figures: Values = json.loads(_output([str(HERE / "bench_limits.py"), *chosen]))
        return figures

    @staticmethod
    def column_names(values: Values) -> list[str]:
        """Return the names of the benchmarks of single pictures."""
        parts = (key.partition(".") for key in values)
        return [name for source, _, name in parts if source == "columns"]

    def _session(self, name: str, run: Path) -> Values:
        """Return the medians of a run with its model and graph, all panes in sight."""
        _warm(run)
        # Three walks, and each of them shows what there is to see in a second or two.
        seconds = min(self._seconds, 2.0)
        return self._opened(name, run.parent, seconds, PANES, rounds=self._few)

    def _opened(
        self,
        name: str,
        path: Path,
        seconds: float,
        options: Sequence[str] = (),
        *,
        rounds: int = 0,
    ) -> Values:
        """Return the medians of ``ggscope bench``."""
        if path.is_file():
            _warm(path)
        command = ["-m", "ggscope", "bench", str(path), "--seconds", str(seconds)]
        command += options
        if name not in self.about:  # byte code, shared libraries, fonts
            _output(["-m", "ggscope", "bench", str(SAMPLE), "--seconds", "0.1"])
        parts = []
        for _ in range(rounds or self._rounds):
            os.environ["GGSCOPE_STARTED"] = repr(time.time())
            parts.append(json.loads(_output(command)))
        whole = median_figures(parts)
        keys = ("renderer", "canvas", "rows", "records", "spans")
        self.about[name] = {word: whole[word] for word in keys}
        return {
            key: float(value)
            for key, value in whole.items()
            if isinstance(value, int | float) and key not in keys
        }

    def _script(self, script: Path, path: Path, *, rounds: int = 0) -> Values:
        """Return what a script that calls the analyses measures with a trace."""
        n = str(rounds or self._few)
        figures: Values = json.loads(_output([str(script), str(path), n]))
        return figures

    def _of_peer(self, source: str, script: Path, path: Path) -> Values:
        """Return what a script measures of another program, which may fail."""
        answer: dict[str, Any] = json.loads(_output([str(script), str(path), "1"]))
        reason = answer.pop("failed", None)
        if reason is not None:
            self.about[source] = {"failed": reason}
            report(f"{source}: failed: {reason}")
        return answer

    def _columns(self) -> Values:
        """Return the medians of tests/bench in milliseconds."""
        target = FOLDER / "columns.json"
        target.unlink(missing_ok=True)
        _output(
            ["-m", "pytest", "-q", str(ROOT / "tests" / "bench"), "--benchmark-only",
             "--benchmark-disable-gc", "--timeout=0", f"--benchmark-json={target}",
             f"--rootdir={ROOT}"]
        )  # fmt: skip
        benchmarks = json.loads(target.read_text("utf-8"))["benchmarks"]
        return {
            one["name"].removeprefix("test_bench_"): float(
                f"{one['stats']['median'] * 1e3:.4g}"
            )
            for one in benchmarks
        }


def report(text: str) -> None:
    """Print a message."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def machine() -> dict[str, object]:
    """Return what the figures were taken on."""
    import psutil

    model = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.is_file():
        lines = described.read_text("utf-8", "replace").splitlines()
        names = [x.partition(":")[2].strip() for x in lines if "model name" in x]
        model = names[0] if names else model
    return {
        "processor": model, "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.system(), "python": platform.python_version(),
    }  # fmt: skip


def own_baseline_path() -> Path:
    """Return where this machine's baseline lies: beside no checkout, so all share it.

    The name holds a digest of the machine, since folders of people may be shared
    between machines.
    """
    facts = json.dumps([machine(), platform.node()], sort_keys=True)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return platformdirs.user_state_path("ggscope") / f"bench-baseline-{digest}.json"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--size", type=_sizes, default=["1", "10"], metavar="LIST",
        help="millions of records: 1, 10, 33 or all; default 1,10",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=_kinds, default=list(KINDS), metavar="LIST",
        help="only these: " + ", ".join(KINDS),
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, default 5")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of panning and zooming, default 5"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print tables for a document"
    )
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE",
        help="instead of this machine's own in the folder of the user's state",
    )  # fmt: skip
    parser.add_argument(
        "--write-baseline", action="store_true",
        help="store what is measured, also where there is a baseline",
    )  # fmt: skip
    return parser.parse_args()


def _sizes(text: str) -> list[str]:
    names = text.replace(",", " ").split()
    sizes = list(SIZES) if names == ["all"] else names
    if not sizes or not all(0.001 <= millions(size) <= 100 for size in sizes):
        raise ValueError(text)
    return sizes


def _kinds(text: str) -> list[str]:
    kinds = text.replace(",", " ").split()
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(KINDS)}")
    return kinds


def _files(arguments: argparse.Namespace) -> dict[str, TraceFile]:
    """Return the traces to measure with, by source."""
    files = {}
    if {"bin", "table"} & set(arguments.only):
        for size in arguments.size:
            files[f"bin{size}"] = trace_file("bin", round(millions(size) * 1e6))
    for kind, n in N_EVENTS.items():
        if kind in arguments.only:
            files[kind] = trace_file(kind, n)
    largest = max(map(millions, arguments.size))
    for kind, counts in _BY_COUNT:
        is_asked = kind in arguments.only
        # Perfetto traces are made of Chrome traces.
        is_asked |= kind == "chrome" and bool(
            {"perfetto", "pftrace"} & set(arguments.only)
        )
        for name, n in counts.items() if is_asked else ():
            if n <= largest * 1e6:
                files[name] = trace_file(kind, n)
    if "sql" in arguments.only:
        files["queried"] = trace_file("ggmlviz", 2 * N_QUERIED)
    if "answers" in arguments.only:
        for name, n_spans in ANSWERS.items():
            if n_spans <= largest * 1e6:
                files[name] = trace_file("ggmlviz", 2 * n_spans)
    if {"moe", "bytes"} & set(arguments.only):
        for size in arguments.size:
            run, model, graph = session_files(round(millions(size) * 1e6))
            files |= {f"moe{size}": run, f"model{size}": model, f"graph{size}": graph}
    return files


def _provided(file: TraceFile) -> Path:
    report(f"{file.name}, {file.n_bytes / 1e6:,.0f} MB")
    return provide(file, FOLDER)


def _table_path(paths: Mapping[str, Path]) -> Path:
    """Return the trace with 10 million records, else the largest there is."""
    records = [path for name, path in paths.items() if name.startswith("bin")]
    return paths.get("bin10") or max(records, key=lambda path: path.stat().st_size)


def _warm(path: Path) -> None:
    """Bring a file into the page cache."""
    buffer = bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _output(command: list[str]) -> str:
    """Return the last line that Python prints when it runs `command`."""
    done = subprocess.run(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        sys.stderr.write(done.stdout)
        report(f"failed with exit code {done.returncode}: {' '.join(command)}")
        raise SystemExit(done.returncode or 1)
    return lines[-1]


def _print(
    known: list[Figure], values: Values, rates: Values, *, is_markdown: bool
) -> None:
    show = bench_report.markdown if is_markdown else bench_report.plain
    print(show(bench_report.table(known, values, rates)))
    print()
    print(show(bench_report.rates_table(rates)))
    print()


def _baseline(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _keep(
    path: Path, result: dict[str, Any], old: dict[str, Any] | None, *, is_new: bool
) -> None:
    """Store what the baseline lacks; all that was measured where it `is_new`."""
    new = {key: value for key, value in result.items() if key != "regressions"}
    if old is not None:
        for key in ("about", "limits", "seconds", "figures"):
            first, second = (old, new) if is_new else (new, old)
            new[key] = {**first[key], **second[key]}
        if new == old:
            return
    make_folder(path.parent)
    write_file(path, (json.dumps(new, indent=1) + "\n").encode())
    report(f"baseline of this machine: {path}")


if __name__ == "__main__":
    raise SystemExit(main())
