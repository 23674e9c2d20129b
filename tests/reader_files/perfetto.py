"""Files of perfetto."""

import perfetto_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return perfetto_files.sample(1, 40, names)


FILES = (
    ReaderFiles(
        "perfetto",
        valid=("run.pftrace", perfetto_files.sample),
        seeds=lambda: [
            ("a.pftrace", perfetto_files.random_trace(1, 40, clock=64)[0]),
            ("b.pftrace", perfetto_files.sample(2, 40)),
            ("c.pftrace.gz", perfetto_files.packed(perfetto_files.others())),
            ("d.pftrace", perfetto_files.bundled(perfetto_files.others())),
            ("e.pftrace", perfetto_files.own_trace()),
        ],
        small_seeds=lambda: [
            ("a.pftrace", perfetto_files.random_trace(1, 8, clock=64)[0]),
            ("b.pftrace", perfetto_files.others()),
            ("d.pftrace", perfetto_files.bundled(perfetto_files.others())),
            ("e.pftrace", perfetto_files.own_trace()),
        ],
        hostile=(".pftrace", _hostile),
    ),
)
