"""Record a server for long: `make soak MINUTES=60`.

A real llama-server (`make llama` builds it) answers clients that work in parallel, with
prompts of ever new lengths, so that it computes ever new graphs. `ggscope-capture run`
records it. Each minute the memory of the program, of the launcher and of the ring in
shared memory is measured; at the end the recording is read back. The exit code is 1
where memory grows, anything was lost, or the sidecar is a tenth of the records or more.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ggscope_capture import launcher, models, targets

VOCABULARY = 256
"""Tokens that every model of `models` has."""
GROWTH_BYTES = 24 << 20
GROWTH_SHARE = 1.10
"""Memory that the second half of the run may need more than the first."""
SHARED_BYTES = 24 << 20
"""What all files of a ring may take in memory beside the ring itself."""
SIDECAR_SHARE = 0.10
WARM_UP_SHARE = 0.2
"""Part of the run in which memory still fills: caches, arenas, tables."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at one moment; bytes."""

    minutes: float
    requests: int
    program: int
    launcher: int
    ring: int
    beside: int
    folder: int


@dataclass
class Clients:
    """Threads that ask a server one question after the other."""

    port: int
    longest: int
    most_tokens: int
    pause: float
    seed: int
    n_done: int = 0
    errors: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def ask(self, number: int) -> None:
        """Ask until `is_over`."""
        chance = random.Random(f"{self.seed}-{number}")
        while not self.is_over.is_set():
            n = chance.randint(1, self.longest)
            question = {
                "prompt": [chance.randrange(3, VOCABULARY) for _ in range(n)],
                "n_predict": chance.randint(1, self.most_tokens),
                "temperature": 0, "ignore_eos": True, "cache_prompt": False,
            }  # fmt: skip
            try:
                self._answer(question)
                self.n_done += 1
            except OSError as error:
                if not self.is_over.is_set():
                    self.errors.append(str(error))
                    time.sleep(1)
            self.is_over.wait(chance.expovariate(1 / self.pause) if self.pause else 0)

    def _answer(self, question: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/completion", json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=120) as answer:
            json.load(answer)


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds, of samples")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds, on average")
    parser.add_argument("--longest", type=int, default=400, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=24, help="generated, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="dense", help="of ggscope-capture models")
    parser.add_argument("--folder", type=Path, help="for what is made; it is kept")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    program = targets.cache() / "shared" / "bin" / "llama-server"
    if not program.is_file():
        print(f"there is no {program}: `make llama` builds it", file=sys.stderr)
        return 2
    folder = given.folder or Path(tempfile.mkdtemp(prefix="ggscope-soak-", dir=_base()))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        samples, clients, code = record(program, folder, given)
        complaints = judged(samples, clients, code, folder / "soak.bin")
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    print("soak: " + ("failed" if complaints else "passed"))
    return 1 if complaints else 0


def _base() -> str | None:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None


def record(
    program: Path, folder: Path, given: argparse.Namespace
) -> tuple[list[Sample], Clients, int]:
    """Record the server while clients ask it; return what was measured."""
    model = folder / f"{given.model}.gguf"
    models.write_model(model, given.model)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    context = 4 * (given.longest + given.tokens + 8) // 256 * 256 + 256
    server = [
        str(program), "-m", str(model), "-t", str(given.threads), "--port", str(port),
        "-np", str(given.clients), "-c", str(context), "--no-warmup",
        "--cache-ram", "0",  # it would fill with prompts
    ]  # fmt: skip
    capture = [sys.executable, "-m", "ggscope_capture", "run", "--require"]
    line = [*capture, "-o", str(folder / "soak.bin"), "--", *server]
    clients = Clients(port, given.longest, given.tokens, given.pause, given.seed)
    with (
        (folder / "server.log").open("wb") as log,
        subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | {"OMP_WAIT_POLICY": "passive"},
        ) as child,
    ):  # fmt: skip
        samples = []
        try:
            _wait_for(port, child)
            threads = [
                threading.Thread(target=clients.ask, args=(number,), daemon=True)
                for number in range(given.clients)
            ]
            for thread in threads:
                thread.start()
            samples = _measured(child, folder, clients, given)
            clients.is_over.set()
            for thread in threads:
                thread.join(120)
        finally:
            clients.is_over.set()
            child.terminate()
            began = time.monotonic()
            code = child.wait()
            print(f"outputs written in {time.monotonic() - began:.1f} s")
    return samples, clients, code


def _wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
        except OSError:
            if child.poll() is not None or time.monotonic() > until:
                raise SystemExit("the server did not begin; see server.log") from None
            time.sleep(0.1)
        else:
            return


def _measured(
    child: subprocess.Popen[bytes],
    folder: Path,
    clients: Clients,
    given: argparse.Namespace,
) -> list[Sample]:
    """Return a sample of each interval; print them as they come."""
    print(f"{'min':>6} {'requests':>9} {'program':>9} {'launcher':>9} "
          f"{'ring':>8} {'beside':>8} {'folder':>9}  MB")  # fmt: skip
    began, samples = time.monotonic(), list[Sample]()
    launched = psutil.Process(child.pid)
    while (now := time.monotonic()) < began + given.minutes * 60:
        time.sleep(min(given.every, began + given.minutes * 60 - now))
        if child.poll() is not None:
            break
        sample = _sample(launched, folder, clients, (time.monotonic() - began) / 60)
        samples.append(sample)
        sizes = (sample.program, sample.launcher, sample.ring, sample.beside)
        print(
            f"{sample.minutes:6.1f} {sample.requests:9,} "
            + " ".join(
                f"{n / 1e6:{w}.1f}" for n, w in zip(sizes, (9, 9, 8, 8), strict=True)
            )
            + f" {sample.folder / 1e6:9.1f}",
            flush=True,
        )
    return samples


def _sample(
    launched: psutil.Process, folder: Path, clients: Clients, minutes: float
) -> Sample:
    rings = list(launcher.ring_folder().glob(f"ggscope-{launched.pid}-*"))
    ring = [path for path in rings if not path.suffix]
    return Sample(
        minutes=minutes,
        requests=clients.n_done,
        program=sum(_memory(child) for child in launched.children(recursive=True)),
        launcher=_memory(launched),
        ring=sum(map(_allocated, ring)),
        beside=sum(_allocated(path) for path in rings if path not in ring),
        folder=sum(_allocated(path) for path in folder.glob("*.partial/*")),
    )


def _memory(process: psutil.Process) -> int:
    """Return what a process needs for itself, without what it maps of files."""
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    return int(memory.rss - memory.shared)


def _allocated(path: Path) -> int:
    """Return what a file takes: holes take nothing."""
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def judged(samples: list[Sample], clients: Clients, code: int, out: Path) -> list[str]:
    """Return what is wrong, in words; print what was found."""
    complaints = [f"a request failed: {error}" for error in clients.errors[:3]]
    if code != 0:
        complaints.append(f"the launcher ended with {code}")
    complaints += growth(samples)
    sidecar = out.with_suffix(".json")
    if not sidecar.is_file():
        return [*complaints, "nothing was recorded"]
    facts = json.loads(sidecar.read_bytes())
    share = sidecar.stat().st_size / max(out.stat().st_size, 1)
    account = facts["account"]
    builds = {build["build"] for build in facts["builds"]}
    print(
        f"{facts['records']:,} records of {facts['graphs']:,} graphs, "
        f"{len(builds):,} distinct; {out.stat().st_size:,} bytes, sidecar "
        f"{sidecar.stat().st_size:,} ({100 * share:.1f} %)"
    )
    losses = {key: facts[key] for key in (
        "lost", "lost_events", "dropped", "dropped_events", "lost_definitions",
        "unnamed_ops", "damaged_frames",
    )} | {key: account[key] for key in (
        "missing", "not_seen", "unplaced", "unknown_graphs",
    )}  # fmt: skip
    print("losses: " + ", ".join(f"{key} {n}" for key, n in losses.items()))
    complaints += [f"{key} is {n}" for key, n in losses.items() if n]
    if account["recorded"] != account["computed"]:
        complaints.append(f"{account['recorded']} of {account['computed']} records")
    if share >= SIDECAR_SHARE:
        complaints.append(f"the sidecar is {100 * share:.1f} % of the records")
    began = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-m", "ggscope", "info", "--json", str(out)],
        capture_output=True, check=False,
    )  # fmt: skip
    print(f"ggscope info: {time.monotonic() - began:.1f} s")
    if result.returncode != 0:
        complaints.append(f"ggscope info ended with {result.returncode}")
        return complaints
    loss_codes = [
        warning["code"] for warning in json.loads(result.stdout)["warnings"]
        if warning["severity"] in ("data_loss", "error")
    ]  # fmt: skip
    complaints += [f"ggscope info reports {code}" for code in loss_codes]
    return complaints


def growth(samples: list[Sample]) -> list[str]:
    """Return what of memory grew between the first half of the run and the second."""
    settled = samples[int(len(samples) * WARM_UP_SHARE) :]
    half = len(settled) // 2
    if half == 0:
        return ["too short to see whether memory grows"]
    complaints = []
    for name in ("program", "launcher", "ring", "beside"):
        first = max(getattr(sample, name) for sample in settled[:half])
        second = max(getattr(sample, name) for sample in settled[half:])
        print(f"{name}: {first / 1e6:.1f} MB, then {second / 1e6:.1f} MB at most")
        if second > max(first * GROWTH_SHARE, first + GROWTH_BYTES):
            complaints.append(f"the memory of the {name} grows")
    largest = max(sample.beside for sample in samples)
    if largest > SHARED_BYTES:
        complaints.append(f"{largest:,} bytes of shared memory beside the ring")
    return complaints


if __name__ == "__main__":
    raise SystemExit(main())
