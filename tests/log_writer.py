"""A server that writes its log: ``python log_writer.py PATH SOURCE``.

It writes as many bytes of SOURCE at the end of PATH as its input says, or
``cut`` makes PATH empty as logrotate's copytruncate does. It says ``ready`` after each.
"""

import os
import sys
from pathlib import Path

path, data = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
print("ready", flush=True)
at = 0
for line in sys.stdin:
    if line.strip() == "cut":
        os.truncate(path, 0)
    else:
        at += os.write(file, data[at : at + int(line)])
    print("ready", flush=True)
