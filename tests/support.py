"""What several test modules share."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def corpus_path() -> Path | None:
    """Return the folder of reference traces, or None where it is absent.

    It is ``GGSCOPE_CORPUS`` if set, else ``../shared/corpus`` beside the checkout. Only
    modules that say so may ask: all others do the same with the corpus and without it,
    and need not run twice to show that.
    """
    running = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
    if running and not may_use_corpus(ROOT / running):
        raise AssertionError(f"{running} asks for the corpus and does not say the word")
    named = os.environ.get("GGSCOPE_CORPUS")
    folder = Path(named) if named else ROOT.parent / "shared" / "corpus"
    return folder if (folder / "INDEX.json").is_file() else None


def may_use_corpus(module: Path) -> bool:
    """Return whether a module's tests may look for the corpus: its text says so."""
    return b"corpus" in module.read_bytes()


def need_corpus() -> Path:
    """Return the corpus folder, or skip the test with the reason."""
    folder = corpus_path()
    if folder is None:
        pytest.skip("the corpus of reference traces is not beside this checkout")
    return folder


def sample_path(name: str) -> Path:
    """Return a bundled sample's file or folder, or skip where it is not made."""
    path = ROOT / "resources" / "samples" / name
    if not path.exists():
        pytest.skip("the samples have not been made")
    return path


def rewrite(path: Path, data: bytes) -> None:
    """Put `data` into a file in place: sweeps over thousands of variants hurry."""
    mode = "r+b" if path.exists() else "wb"
    with path.open(mode, buffering=0) as file:
        file.write(data)
        file.truncate()


@contextlib.contextmanager
def small_files(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond `n_bytes`: what a full disk is like.

    For a part of a test only: what the tests themselves print may go to a file.
    """
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


SWEEP_STEP = int(os.environ.get("GGSCOPE_SWEEP", "20"))


def swept(places: Sequence[int]) -> Sequence[int]:
    """Return the places of a sweep over a whole file that this run tries.

    One in twenty, others for another ``SEED`` of the run; ``GGSCOPE_SWEEP=1`` all.
    """
    return places[int(os.environ.get("SEED") or 0) % SWEEP_STEP :: SWEEP_STEP]


def need_terminal() -> None:
    """Skip the test where there are no pseudo-terminals, as in a bare root."""
    import pty

    try:
        ends = pty.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal can be had here: {error}")
    for end in ends:
        os.close(end)
