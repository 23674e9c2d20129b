"""Models and unmodified llama.cpp libraries for the tests of the capture package."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

from ggscope_capture import models, targets

HOME = Path(sys.prefix) / "capture-targets"
"""Where the packages are kept between runs, unless GGSCOPE_CAPTURE_HOME says else."""


def installed(origin: str) -> targets.Target:
    """Return an unmodified llama.cpp; skip where it cannot be had."""
    os.environ.setdefault("GGSCOPE_CAPTURE_HOME", str(HOME))
    targets.home().mkdir(parents=True, exist_ok=True)
    with (targets.home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of one test run
        try:
            return targets.install(origin)
        except targets.InstallError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def npm_llama() -> targets.Target:
    """Libraries with dynamic backends."""
    return installed("npm")


@pytest.fixture(scope="session")
def pypi_llama() -> targets.Target:
    """One library with everything in it."""
    return installed("pypi")


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The smallest models, dense and with experts, by name."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: folder / f"{name}.gguf" for name in ("nano", "nano-moe")}
    for name, path in made.items():
        models.write_model(path, name)
    return made
