"""`make soak`: a server that is recorded for long, here for seconds; its verdict."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tracing import CACHE, built, tracer

PATH = Path(__file__).parents[2] / "packaging" / "soak.py"
MB = 1_000_000


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packaging_soak", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_server_is_recorded_for_some_seconds_without_a_loss() -> None:
    built("shared", "llama-server")
    tracer()
    line = [sys.executable, PATH, "--minutes", "0.08", "--every", "1"]
    line += ["--model", "nano", "--longest", "60", "--tokens", "4"]

    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=100,
        env=os.environ | {"XDG_CACHE_HOME": str(CACHE.parents[1])},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    match = re.search(r"([\d,]+) records of ([\d,]+) graphs", done.stdout)
    assert match is not None
    records, graphs = (int(n.replace(",", "")) for n in match.groups())
    assert records > graphs > 10
    assert re.search(r"missing 0\b", done.stdout)


@pytest.mark.parametrize("what", ["program", "launcher", "ring", "beside"])
@pytest.mark.parametrize(("grows", "n"), [(0, 0), (1, 0), (5, 1)])
def test_memory_that_grows_fails_it(
    what: str, grows: int, n: int, soak: ModuleType
) -> None:
    """By MB a minute: little is what caches and tables still take."""
    flat = {"program": 40, "launcher": 24, "ring": 42, "beside": 2}
    samples = [
        soak.Sample(
            minutes=i, requests=10 * i, folder=50 * MB * i,
            **{key: mb * MB for key, mb in flat.items()}
            | {what: (flat[what] + grows * i) * MB},
        )
        for i in range(20)
    ]  # fmt: skip

    complaints = soak.growth(samples)

    assert sum(f"memory of the {what} grows" in each for each in complaints) == n


def test_shared_memory_beside_the_ring_is_bounded(soak: ModuleType) -> None:
    def sample(beside: int) -> object:
        return soak.Sample(1.0, 1, MB, MB, MB, beside, MB)

    limit = soak.SHARED_BYTES

    assert soak.growth([sample(limit)] * 4) == []
    assert len(soak.growth([sample(limit + 1)] * 4)) == 1
    assert len(soak.growth([])) == 1  # too short for a verdict
