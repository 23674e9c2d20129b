"""A program that writes a file and waits: through mapped memory, or by a descriptor.

``python writing_program.py MODE PATH`` with the modes ``map`` (maps, closes the
descriptor, writes), ``open`` (keeps the descriptor), ``read`` (opens for reading) and
``close`` (writes, closes, runs on). It says ``ready`` and ends with its input.
"""

import mmap
import sys
from pathlib import Path

mode, path = sys.argv[1], Path(sys.argv[2])
if mode == "map":
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
elif mode == "open":
    opened = path.open("ab")
elif mode == "read":
    opened = path.open("rb")
elif mode == "close":
    opened = path.open("ab")
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("close"):
        opened.close()
    else:  # records as hexadecimal digits, and where they go
        at, data = line.split()
        raw = bytes.fromhex(data)
        if mode == "map":
            mapped[int(at) : int(at) + len(raw)] = raw
        else:
            opened.write(raw)
            opened.flush()
    print("ready", flush=True)
