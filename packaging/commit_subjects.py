"""Check the subjects of commits that are not published yet: `area: imperative summary`.

    python packaging/commit_subjects.py [BASE]

Without BASE these are the commits since the upstream branch, else since the branch
`main`, else since the last tag. Without git or any such base, none are checked.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LENGTH = 72
SINCE = "2026-11-26T20:00:00+00:00"
"""Commits before this time were made without the check."""
_FORM = re.compile(r"[a-z][\w./-]*(?:, [a-z][\w./-]*)*: (?P<word>\S+) \S")
_NO_VERBS = """
    a an the this that these those it its they there no not one two three four five six
    all each every some more most less new old what where when who which whose how if in
    on by of at to for from with without also only is are was were has have had
"""
_VERBS_LIKE_OTHERS = """
    access address bring bypass compress cross discuss dress embed expose express feed
    focus guess miss need pass ping press process ring shed speed spring stress string
"""


def problem(subject: str) -> str:
    """Return what is wrong with a subject; "" = nothing."""
    if len(subject) > MAX_LENGTH:
        return f"has {len(subject)} characters; at most {MAX_LENGTH}"
    form = _FORM.match(subject)
    if form is None:
        return "is not `area: imperative summary`"
    word = form["word"].rstrip(",").lower()
    is_noun_like = (
        word.endswith(("ed", "ing", "s")) and word not in _VERBS_LIKE_OTHERS.split()
    )
    if word in _NO_VERBS.split() or word.isdigit() or is_noun_like:
        return f"does not begin with an imperative verb: {form['word']!r}"
    return ""


def subjects(base: str | None = None, folder: Path = ROOT) -> list[str]:
    """Return the subjects of the commits after `base`, the newest first; no merges."""
    base = base or _published(folder)
    if not base:
        return []
    listed = _git(
        folder, "log", "--no-merges", "--format=%s", f"--since={SINCE}", f"{base}..HEAD"
    )
    return listed.splitlines()


def _published(folder: Path) -> str:
    """Return the commit up to which everything is published; "" = not known."""
    for name in _bases(folder):
        base = _git(folder, "merge-base", "HEAD", name) if name else ""
        if base:
            return base
    return ""


def _bases(folder: Path) -> Iterator[str]:
    for name in ("HEAD@{upstream}", "refs/remotes/origin/main", "refs/heads/main"):
        yield _git(folder, "rev-parse", "--verify", "--quiet", name)
    yield _git(folder, "describe", "--tags", "--abbrev=0")


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; "" where it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def main(argv: list[str]) -> int:
    """Print each subject that is wrong and why; return 1 where there is one."""
    problems = {
        subject: problem(subject) for subject in subjects(argv[0] if argv else None)
    }
    for subject, what in problems.items():
        if what:
            print(f"commit subject {what}\n    {subject}", file=sys.stderr)
    return int(any(problems.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
