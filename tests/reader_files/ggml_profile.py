"""Files of ggml-profile."""

import profile_files
from reader_files import Names, ReaderFiles


def _hostile(names: Names) -> bytes:
    return profile_files.profile(1, 20, names=names)[0]


FILES = (
    ReaderFiles(
        "ggml-profile",
        valid=("profile.json", lambda: profile_files.profile(1)[0]),
        seeds=lambda: [
            ("profile.json", profile_files.profile(1)[0]),
            ("fork.json", profile_files.fork(1, 20)[0]),
        ],
        hostile=(".json", _hostile),
    ),
)
