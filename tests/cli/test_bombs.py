"""Packed files that unpack to ten gigabytes: small memory, and words that help."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

_PART_BYTES, _N_PARTS = 64 << 20, 160
_MAX_MB = 600
"""Of the whole process; what is unpacked before the ratio is known is 64 MB."""
_RUN = """
import re, sys
from pathlib import Path
from ggscope.cli import main
code = main(sys.argv[1:])
status = Path("/proc/self/status").read_text()
print("peak", re.search(r"VmHWM:\\s+(\\d+) kB", status)[1], file=sys.stderr)
raise SystemExit(code)
"""


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


HEADS = {
    "nothing": b"",
    "chrome": b'{"traceEvents":[{"ph":"X","ts":1,"dur":2,"name":"a"},',
    "metadata": b'{"otherData":{"a":"',
    # Types of values, a sample, and a text of a gigabyte.
    "pprof": field(1, b"\x08\x01\x10\x02")
    + field(2, field(1, b"\1") + field(2, b"\5"))
    + b"\x32\x80\x80\x80\x80\x04",
}


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """Return members of gzip that hold ten gigabytes of zeros."""
    return gzip.compress(bytes(_PART_BYTES), 9, mtime=0) * _N_PARTS


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the peak")
def test_ten_gigabytes_of_zeros_take_little_memory(name, zeros, tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(HEADS[name], mtime=0) + zeros)

    done = subprocess.run(
        [sys.executable, "-c", _RUN, "info", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    peak = int(done.stderr.rpartition("peak ")[2])
    assert peak < _MAX_MB << 10
    output = done.stdout + done.stderr
    assert done.returncode in (0, 1, 3)
    if name in ("chrome", "pprof"):
        assert "400 times its size" in output
        assert "gzip -d" in output
    else:
        assert path.name in output
        assert "unknown file format" in output
