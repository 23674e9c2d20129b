"""A program that is followed through its ring."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ggscope.live.program import ProgramSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of a ring."""
    return tmp_path / "ring ü"


@pytest.fixture
def source(path: Path) -> Iterator[ProgramSource]:
    """What follows that ring, looks at its program each time, and leaves nothing."""
    made = ProgramSource(path, look_ns=0)
    yield made
    made.close()
    made.forget()
