"""Time queries over a trace: what SQL sees of its columns, without a window.

    python packaging/bench_sql.py TRACE [ROUNDS]

Prints JSON: medians of processor time over the number of threads that DuckDB uses, in
milliseconds, and the memory that the tables take.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import psutil

from ggscope.analysis.sql.database import SqlDatabase
from ggscope.readers.registry import open_trace

QUERIES = {
    "group_ms": "select op, count(*), sum(duration_ns) from spans group by op",
    "count_ms": "select count(*) from spans",
    "name_ms": "select count(*) from spans where name = 'Qcur-7'",
}


def main() -> int:
    """Measure and print."""
    path = Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    threads = os.cpu_count() or 1
    trace = open_trace(path)
    process = psutil.Process()
    before = process.memory_info().rss
    figures = {}
    with SqlDatabase(trace, threads=threads) as database:
        database.query(QUERIES["group_ms"])
        figures["tables_mb"] = (process.memory_info().rss - before) / 1e6
        for name, sql in QUERIES.items():
            seconds = []
            for _ in range(rounds):
                begin = time.process_time()
                database.query(sql)
                seconds.append((time.process_time() - begin) / threads)
            figures[name] = median(seconds) * 1e3
    print(json.dumps({name: float(f"{x:.4g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
