"""The fuzz campaign: `make fuzz [MINUTES=10] [CASES=N] [ARGS="--reader npu-json"]`.

Workers mutate and read one file after another; this process watches them, ends what
takes too long, and keeps each new kind of finding in a folder of its own, with the line
that repeats it. Numbers of cases go on from run to run, so that pieces add up and no
case is tried twice. `--sanitize` builds the compiled scans with address and
undefined-behaviour sanitizers and fuzzes the readers that use them.
"""

import argparse
import contextlib
import fcntl
import gc
import hashlib
import json
import math
import mmap
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fuzzing import cases
from fuzzing.cases import (
    CPU_SECONDS,
    Case,
    CaseFailedError,
    attempt,
    case_of,
    sound_case,
)
from fuzzing.seeds import reader_ids
from ggscope.native.build import BuildError, compile_library
from ggscope.native.declared import NAME
from support import ROOT

FOLDER = Path(os.environ.get("GGSCOPE_FUZZ_FOLDER") or ROOT / "build" / "fuzz")
"""Where findings, counts and the library with sanitizers are kept."""
SANITIZERS = (
    "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
)  # fmt: skip
SANITIZED = (
    "ggmlviz",
    "tensor-access",
    "npu-json",
    "chrome-json",
    "perfetto",
    "perf-script",
    "folded",
    "cuda-calls",
    "llama-log",
    "storage",
    "ggml-ops",
    "ggml-hexagon",
    "speedscope",
)
"""Readers with compiled scans."""
MINUTES = 10.0
"""How long a campaign takes that is stated neither minutes nor cases."""
STUCK_SECONDS = 120.0
"""A case that neither ends nor computes for so long waits for something."""
_STATUS = struct.Struct("<qd5q")
_NO_LIMIT = 1 << 40
_SHRINK_TRIES = 400
_FORGET_BYTES = 64 << 20
_POLL_S = 0.1
_FACTS = "case.json"
_FRESH_CODE = 77
"""How a worker ends whose memory is full of what it found."""
_FRESH_START = f"end of the process, exit code {_FRESH_CODE}"


class Status(NamedTuple):
    """What a worker reports of its work.

    Attributes
    ----------
    number : of the case at work, or of the last one.
    begin : processor seconds of the process when that case began.
    n_read, n_refused : cases that ended so.
    n_mutations, n_dense, n_dense_mutations : mutations, dense cases and mutations in
        those, with the case at work.
    """

    number: int
    begin: float = 0.0
    n_read: int = 0
    n_refused: int = 0
    n_mutations: int = 0
    n_dense: int = 0
    n_dense_mutations: int = 0


@dataclass(slots=True)
class Tally:
    """What came of one reader's cases.

    A case is a file; a mutation is a change of one. Dense cases have many.
    """

    n_cases: int = 0
    n_mutations: int = 0
    n_dense: int = 0
    n_dense_mutations: int = 0
    n_read: int = 0
    n_refused: int = 0
    n_findings: int = 0
    next_number: int = 0


class Keeper:
    """Keeps the first case of each kind of finding.

    A finding is a folder: the file under its own name, and `case.json` with reader,
    options, kind, detail and the line that repeats it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: Counter[tuple[str, str]] = Counter()

    def keep(self, case: Case, kind: str, detail: str, number: int) -> Path | None:
        """Store the case unless its kind is known; return the new folder."""
        key = (case.reader, kind)
        self.kinds[key] += 1
        if self.kinds[key] > 1:
            return None
        slug = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")[:60]
        digest = hashlib.sha256(case.data).hexdigest()[:8]
        target = self.folder / f"{case.reader}--{slug}--{digest}"
        target.mkdir(parents=True, exist_ok=True)
        (target / case.name).write_bytes(case.data)
        facts = asdict(case) | {
            "kind": kind, "detail": detail, "number": number,
            "repeat": f'make fuzz ARGS="--replay {_shown(target)}"',
        }  # fmt: skip
        for name in ("data", "commands"):
            del facts[name]
        (target / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        return target


def finding_case(folder: Path) -> Case:
    """Return the case of a finding's folder; it goes through all commands."""
    facts = json.loads((folder / _FACTS).read_text("utf-8"))
    known = {name: facts[name] for name in ("reader", "name", "options")}
    data = (folder / facts["name"]).read_bytes()
    return Case(data=data, commands=cases.COMMANDS, **known)


class Worker:
    """A process that reads case after case of one reader.

    Parameters
    ----------
    numbers : first number, one past the last, step.
    cpu_seconds : what one case may compute.
    """

    def __init__(
        self,
        reader: str,
        numbers: tuple[int, int, int],
        *,
        environment: dict[str, str],
        cpu_seconds: float = CPU_SECONDS,
        deadline: float,
    ) -> None:
        self.reader = reader
        self._numbers = numbers
        self._cpu_seconds = cpu_seconds
        self._deadline = deadline
        self._folder = Path(
            tempfile.mkdtemp(prefix="ggscope-fuzz-", dir=_quick_folder())
        )
        self._status_path = self._folder / "status"
        self._status_path.write_bytes(_STATUS.pack(*Status(numbers[0])))
        with self._status_path.open("r+b") as file:
            self._status = mmap.mmap(file.fileno(), _STATUS.size)
        self._errors = (self._folder / "stderr").open("w+b")
        self._out = (self._folder / "stdout").open("w+b")
        parts = [*map(str, numbers), repr(deadline)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzzing.campaign", "--worker", reader,
             str(self._folder), *parts],
            stdout=self._out, stderr=self._errors, stdin=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip
        self._last_move = (time.monotonic(), -1)

    @property
    def status(self) -> Status:
        """What the process reports of its work."""
        return Status(*_STATUS.unpack_from(self._status))

    def poll(self) -> str | None:
        """Return why the process ended or was ended, None while it works."""
        code = self._process.poll()
        if code is not None:
            return "" if code == 0 else self._death(code)
        number, begin = self.status[:2]
        now = time.monotonic()
        if number != self._last_move[1]:
            self._last_move = (now, number)
        with contextlib.suppress(OSError, ValueError, IndexError):
            if begin and _cpu_of(self._process.pid) - begin > self._cpu_seconds:
                self._end()
                return f"hang of more than {self._cpu_seconds:g} s of processor time"
        if now - self._last_move[0] > STUCK_SECONDS:
            # On a machine that is busy a process may wait for the processor alone.
            if _is_runnable(self._process.pid):
                self._last_move = (now, number)
                return None
            self._end()
            return "waits for something"
        return None

    def findings(self) -> Iterator[dict[str, object]]:
        """Yield what the process reported."""
        self._out.seek(0)
        for line in self._out.read().splitlines():
            if line.startswith(b'{"finding"'):
                yield json.loads(line)

    def close(self) -> None:
        """End the process and take its files away."""
        self._end()
        self._status.close()
        self._errors.close()
        self._out.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _death(self, code: int) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace")
        report = re.search(r"(AddressSanitizer: \S+|runtime error: .*)", text)
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"end of the process, {report[1] if report else why}\n{text[-4000:]}"


class Campaign:
    """Fuzzes readers for a time, or for a number of cases each."""

    def __init__(
        self, *, folder: Path, environment: dict[str, str], processes: int
    ) -> None:
        self.keeper = Keeper(folder / "findings")
        self.tallies: dict[str, Tally] = {}
        self._environment = environment
        self._processes = processes

    def run(
        self,
        reader: str,
        first: int,
        *,
        n_cases: int,
        seconds: float,
        cpu_seconds: float = CPU_SECONDS,
    ) -> Tally:
        """Try up to `n_cases` cases from number `first` on; stop after `seconds`."""
        tally = self.tallies.setdefault(reader, Tally())
        deadline = time.time() + seconds
        step = self._processes

        def started(begin: int) -> Worker:
            return Worker(
                reader, (begin, first + n_cases, step), environment=self._environment,
                cpu_seconds=cpu_seconds, deadline=deadline,
            )  # fmt: skip

        workers = [started(first + i) for i in range(min(step, n_cases))]
        try:
            while workers:
                time.sleep(_POLL_S)
                for worker in list(workers):
                    why = worker.poll()
                    if why is None:
                        continue
                    number = self._finish(tally, worker, why)
                    workers.remove(worker)
                    begin = number + step
                    if why and time.time() < deadline and begin < first + n_cases:
                        workers.append(started(begin))
        finally:
            for worker in workers:
                worker.close()
        return tally

    def _finish(self, tally: Tally, worker: Worker, why: str) -> int:
        """Count what a worker did, keep what it found; return its last number."""
        status = worker.status
        found_here = list(worker.findings())
        for item in found_here:
            case = replace(
                case_of(worker.reader, int(str(item["number"]))),
                data=bytes.fromhex(str(item["data"])),
            )
            self._keep(tally, case, str(item["finding"]), str(item["detail"]),
                       int(str(item["number"])))  # fmt: skip
        is_dead = bool(why) and not why.startswith(_FRESH_START)
        if is_dead:
            kind, _, detail = why.partition("\n")
            case = case_of(worker.reader, status.number)
            self._keep(tally, case, kind, detail, status.number)
        tally.n_read += status.n_read
        tally.n_refused += status.n_refused
        tally.n_cases += status.n_read + status.n_refused + len(found_here) + is_dead
        tally.n_mutations += status.n_mutations
        tally.n_dense += status.n_dense
        tally.n_dense_mutations += status.n_dense_mutations
        tally.next_number = max(tally.next_number, status.number + 1)
        worker.close()
        return status.number

    def _keep(
        self, tally: Tally, case: Case, kind: str, detail: str, number: int
    ) -> None:
        tally.n_findings += 1
        target = self.keeper.keep(case, kind, detail, number)
        if target is not None:
            last = detail.strip().splitlines()[-1:] or [""]
            write_line(f"FOUND {case.reader}: {kind}: {last[0]}")
            write_line(f'  make fuzz ARGS="--replay {_shown(target)}"')


def work(
    reader: str, folder: Path, first: int, stop: int, step: int, end: float
) -> int:
    """Read case after case; report findings as lines on stdout; return an exit code."""
    if not os.environ.get("LD_PRELOAD"):  # sanitizers map terabytes, and use few
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = folder / "files"
    place.mkdir()
    at = Status(first)
    # What is imported on first use must not count as the first case's memory.
    with contextlib.suppress(CaseFailedError):
        attempt(sound_case(reader), place)
    with (folder / "status").open("r+b") as file:
        status = mmap.mmap(file.fileno(), _STATUS.size)
    gc.freeze()
    for number in range(first, stop, step):
        if time.time() > end:
            break
        case = case_of(reader, number)
        at = at._replace(
            number=number,
            begin=time.process_time(),
            n_mutations=at.n_mutations + case.n_mutations,
            n_dense=at.n_dense + case.is_dense,
            n_dense_mutations=at.n_dense_mutations + case.is_dense * case.n_mutations,
        )
        _STATUS.pack_into(status, 0, *at)
        before = _resident()
        try:
            is_read = attempt(case, place) == "read"
            # The peak since the process began is had at once; that since it was set
            # back, which is never more, is looked up where the first says too much.
            ru_maxrss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            if ru_maxrss - before > _FORGET_BYTES:
                ru_maxrss = _most_resident()
            if (
                ru_maxrss - before
                > cases.MEMORY_TIMES * len(case.data) + cases.MEMORY_MORE
            ):
                _report(
                    number, case, "memory", f"{(ru_maxrss - before) >> 20} MiB more"
                )
                _STATUS.pack_into(status, 0, *at._replace(begin=0.0))
                return _FRESH_CODE
            if ru_maxrss - before > _FORGET_BYTES:
                Path("/proc/self/clear_refs").write_text("5")
            at = at._replace(
                n_read=at.n_read + is_read, n_refused=at.n_refused + (not is_read)
            )
        except CaseFailedError as finding:
            _STATUS.pack_into(status, 0, *at._replace(begin=0.0))
            small = shrunk(case, finding.kind, place)
            _report(number, small, finding.kind, finding.detail)
        at = at._replace(begin=time.process_time())
        _STATUS.pack_into(status, 0, *at)
    return 0


def shrunk(case: Case, kind: str, folder: Path) -> Case:
    """Return a case that is smaller, if one can be had, and fails in the same way."""
    tries, size = 0, len(case.data) // 2
    while size and tries < _SHRINK_TRIES:
        at = 0
        while at < len(case.data) and tries < _SHRINK_TRIES:
            fewer = replace(case, data=case.data[:at] + case.data[at + size :])
            tries += 1
            try:
                attempt(fewer, folder)
            except CaseFailedError as finding:
                if finding.kind == kind:
                    case = fewer
                    continue
            at += size
        size //= 2
    return case


def sanitized(folder: Path) -> dict[str, str]:
    """Build the compiled library with sanitizers; return what the environment needs.

    Raises
    ------
    SystemExit
        If there is no compiler with them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        compile_library(folder / NAME, SANITIZERS, compiler="gcc")
    except BuildError as error:
        raise SystemExit(f"fuzz: {error}") from None
    return sanitizer_environment() | {"GGSCOPE_NATIVE": str(folder)}


def build_sanitized(source: Path, target: Path) -> None:
    """Compile one C file into a shared library with sanitizers."""
    done = subprocess.run(
        ["gcc", *SANITIZERS, "-std=c11", "-fPIC", "-shared", str(source),
         "-o", str(target)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"fuzz: {source.name} cannot be built so:\n{done.stderr}")


def sanitizer_environment() -> dict[str, str]:
    """Return the variables under which Python loads such libraries."""
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    return {
        "LD_PRELOAD": asan,
        # Python's own allocator would hide what is read behind an object.
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    }


def base_environment() -> dict[str, str]:
    """Return the environment of the workers: no settings and plug-ins of anybody."""
    paths = [str(ROOT / "tests"), str(ROOT / "app"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "GGSCOPE_SAFE_MODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 where something was found."""
    items = list(sys.argv[1:] if argv is None else argv)
    if items[:1] == ["--worker"]:
        reader, folder, *numbers, end = items[1:]
        first, stop, step = map(int, numbers)
        return work(reader, Path(folder), first, stop, step, float(end))
    arguments = _arguments(items)
    if arguments.replay:
        return replay(arguments.replay)
    environment = base_environment()
    mode = "sanitized" if arguments.sanitize else "plain"
    if arguments.sanitize:
        environment |= sanitized(FOLDER / "sanitized")
    chosen = arguments.reader or list(SANITIZED if arguments.sanitize else reader_ids())
    campaign = Campaign(
        folder=FOLDER, environment=environment, processes=arguments.processes
    )
    minutes = arguments.minutes
    if minutes is None:
        minutes = math.inf if arguments.cases else MINUTES
    share = minutes * 60 / len(chosen)
    n_cases = arguments.cases or _NO_LIMIT
    counts: dict[str, dict[str, int]] = {}
    for reader in chosen:
        begin = _counted(f"{reader} {mode}", Tally())["next"]
        limits = [f"{arguments.cases:,} cases"] if arguments.cases else []
        limits += [f"{share:.0f} s"] if math.isfinite(share) else []
        write_line(f"{reader}, {mode}, {' or '.join(limits)}, from case {begin:,} on")
        tally = campaign.run(reader, begin, n_cases=n_cases, seconds=share)
        counts[reader] = _counted(f"{reader} {mode}", tally)
    print(_HEADINGS)
    for reader, tally in campaign.tallies.items():
        print(_row(reader, tally, counts[reader]))
    return 1 if campaign.keeper.kinds else 0


_HEADINGS = (
    f"{'reader':18}{'cases':>10}{'mutations':>12}{'in dense':>12}{'read':>10}"
    f"{'refused':>10}{'found':>7}{'all cases':>12}{'all mutations':>15}"
)


def _row(reader: str, tally: Tally, counts: dict[str, int]) -> str:
    """Return what was tried of a reader: now, how it ended, and in all runs."""
    n_cases = counts["cases"] + counts.get("earlier", 0)
    n_mutations = counts["mutations"] + counts.get("earlier_mutations", 0)
    return (
        f"{reader:18}{tally.n_cases:>10,}{tally.n_mutations:>12,}"
        f"{tally.n_dense_mutations:>12,}{tally.n_read:>10,}{tally.n_refused:>10,}"
        f"{tally.n_findings:>7}{n_cases:>12,}{n_mutations:>15,}"
    )


def replay(folder: Path) -> int:
    """Read the case of a finding once more; return 1 where it still fails."""
    with tempfile.TemporaryDirectory() as place:
        try:
            print(attempt(finding_case(folder), Path(place)))
        except CaseFailedError as finding:
            print(finding.detail, finding.kind, sep="\n")
            return 1
    return 0


def write_line(text: str) -> None:
    """Print a message."""
    print(f"fuzz: {text}", file=sys.stderr, flush=True)


def _arguments(items: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--minutes", type=float,
        help=f"in all; default {MINUTES:g}, with --cases none",
    )  # fmt: skip
    parser.add_argument(
        "--reader",
        action="append",
        choices=reader_ids(),
        help="only this one; repeatable",
    )
    parser.add_argument(
        "--cases",
        type=_positive,
        metavar="N",
        help="so many for each reader; with --minutes fewer where time is up",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sanitize", action="store_true", help="the compiled scans")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="of a finding")
    return parser.parse_args(items)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number of cases")
    return number


_COUNTS = {
    "cases": "n_cases",
    "mutations": "n_mutations",
    "dense_cases": "n_dense",
    "dense_mutations": "n_dense_mutations",
}
"""What is kept of a tally, by its name in the file of counts."""
_EARLIER = {"cases": "earlier", "mutations": "earlier_mutations"}
"""Where the counts go on of cases that had other numbers."""


def _counted(what: str, tally: Tally) -> dict[str, int]:
    """Add what was tried to the counts that are kept; return those of `what`.

    Several campaigns may run at the same time, each for a reader of its own.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "counts.json"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        counts = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        done: dict[str, int] = counts.setdefault(what, {})
        if done.get("generation", 1) != cases.GENERATION:
            # The numbers mean other cases now; those tried before were tried.
            for name, earlier in _EARLIER.items():
                done[earlier] = done.get(earlier, 0) + done.get(name, 0)
            done |= dict.fromkeys((*_COUNTS, "next"), 0)
            done["generation"] = cases.GENERATION
        for name, attribute in _COUNTS.items():
            done[name] += getattr(tally, attribute)
        done["next"] = max(done["next"], tally.next_number)
        # At once: whoever looks meanwhile finds a whole file.
        written = path.with_suffix(".new")
        written.write_text(json.dumps(counts, indent=1), "utf-8")
        written.replace(path)
    return done


def _report(number: int, case: Case, kind: str, detail: str) -> None:
    facts = {
        "finding": kind,
        "detail": detail,
        "number": number,
        "data": case.data.hex(),
    }
    print(json.dumps(facts), flush=True)


def _quick_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _is_runnable(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
        )
    return False


def _cpu_of(pid: int) -> float:
    """Return the processor seconds of a process."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def _most_resident() -> int:
    """Return the peak of this process since it was last set back, in bytes."""
    with open("/proc/self/status", "rb") as file:
        match = re.search(rb"VmHWM:\s+(\d+) kB", file.read())
    return int(match[1]) << 10 if match else 0


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    raise SystemExit(main())
