"""When early snapshots come, and what all of them may cost."""

from itertools import pairwise

from ggscope.readers.snapshots import SnapshotScheduler


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def nothing() -> None:
    return


def test_snapshots_come_when_three_times_as_much_is_read() -> None:
    clock = Clock()
    pace = SnapshotScheduler(0.1, short_s=0.15, most=4, growth=3, clock=clock)

    due = []
    for done in range(1, 100):
        clock.now = done / 100
        if pace.is_due(done, 100):
            pace.timed(nothing, done)
            due.append(done)

    assert due == [10, 30, 90]
    assert pace.is_slow


def test_nobody_who_does_not_listen_gets_a_snapshot() -> None:
    pace = SnapshotScheduler(0, is_requested=False)

    assert not pace.is_due(50, 100)
    assert not pace.is_slow


def test_last_snapshot_is_left_out_where_the_rest_is_read_in_no_time() -> None:
    clock = Clock()
    pace = SnapshotScheduler(0.1, clock=clock)
    clock.now = 0.11

    assert not pace.is_due(60, 100)
    assert pace.is_due(50, 100)


def test_no_snapshot_shows_more_than_a_share() -> None:
    pace = SnapshotScheduler(0.0, largest_share=0.25)

    shown = []
    for done in (0, 100, 150, 250, 499, 600, 1000, 3000, 4000):
        if pace.is_due(done, 4000):
            pace.timed(nothing, done)
            shown.append(done)

    assert shown == [100, 250, 600]


def test_early_snapshots_double_and_stay_cheap() -> None:
    for seconds in (0.5, 2.0, 20.0, 200.0):
        for price in (0.3 * seconds, seconds, 3 * seconds):
            result = snapshots(seconds, price)

            assert result, (seconds, price)
            assert result[0] * seconds <= max(0.05, seconds / 400)
            assert len(result) <= 8
            assert max(result) <= 0.4
            assert all(b >= 2 * a for a, b in pairwise(result))
            assert sum(result[1:]) * price <= 0.2 * seconds + 1e-9


def test_short_reads_make_no_snapshots() -> None:
    assert snapshots(0.1, 0.05) == []


def snapshots(seconds: float, price: float, steps: int = 400) -> list[float]:
    """Return the shares of a file at which snapshots are made.

    Parameters
    ----------
    seconds : for reading all of it.
    price : of a snapshot of all of it, in the same seconds.
    """
    clock = Clock()
    pace = SnapshotScheduler(
        0.04, short_s=0.15, most=8, largest_share=0.4, cost_share=0.2, clock=clock
    )
    snapshots = []
    for k in range(1, steps + 1):
        clock.now += seconds / steps
        if pace.is_due(k * 1000, steps * 1000):

            def publish(cost: float = price * k / steps) -> None:
                clock.now += cost

            pace.timed(publish, k * 1000)
            snapshots.append(k / steps)
    return snapshots


def test_readers_of_blocks_publish_little_of_a_file_that_is_read_fast() -> None:
    pace = SnapshotScheduler.of_blocks()

    assert not pace.is_due(50, 100)  # no half a second has gone by
    assert not SnapshotScheduler.of_blocks(is_requested=False).is_slow
