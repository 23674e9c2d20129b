/* Merges runs of sorted spans. The spans of a layer or of a whole trace come from a
 * few threads, each in order already; merging them is several times as fast as sorting.
 */
#include <stddef.h>

#include "native.h"

/* merges.MAX_RUNS; many more runs than a trace has threads. */
enum { MAX_RUNS = 1024, AHEAD = 16 };

/* What the merge reads: start and, where the order goes by it, end of every span of
 * the trace, and which spans (NULL: 0, 1, 2 …). */
typedef struct {
    const int64_t *start, *end;
    const int32_t *ids;
} Spans;

/* The next span of a run. One that is used up starts at the end of time. */
typedef struct {
    int64_t start, tie, end;
    int64_t at, stop;
} Head;

/* A tournament: each game remembers the run that lost it, so that a new head of the
 * winner meets only those on its way up. Game 0 holds the winner of all. */
typedef struct {
    Head heads[MAX_RUNS];
    int32_t loser[MAX_RUNS];
    int64_t k;
} Tournament;

/* What spans that start together go by, ascending: instants first, then the longer
 * ones; all alike where ends do not matter. */
static inline int64_t tie_of(int64_t start, int64_t end, int has_end)
{
    return !has_end ? 0 : end == start ? INT64_MIN : -end;
}

static void read_head(const Spans *s, Head *head)
{
    if (head->at >= head->stop) {
        head->start = head->tie = INT64_MAX;
        return;
    }
    const int64_t span = s->ids ? s->ids[head->at] : head->at;
    if (s->ids && head->at + AHEAD < head->stop) {
        PREFETCH(s->start + s->ids[head->at + AHEAD]);
        PREFETCH(s->end + s->ids[head->at + AHEAD]);
    }
    head->start = s->start[span];
    head->end = s->end ? s->end[span] : head->start;
    head->tie = tie_of(head->start, head->end, s->end != NULL);
}

/* Whether run a goes before run b; of equals the earlier one. Threads start together
 * as often as not, so there is no branch on that. */
static inline int goes_first(const Tournament *t, int32_t a, int32_t b)
{
    const Head *x = &t->heads[a], *y = &t->heads[b];
    const int tied = (x->tie < y->tie) | ((x->tie == y->tie) & (a < b));
    return (x->start < y->start) | ((x->start == y->start) & tied);
}

/* Let the new head of a run play its way up. Nor is there a branch on
 * who wins, which is hard to foretell. */
static inline void play(Tournament *t, int32_t run)
{
    for (int64_t game = (run + t->k) / 2; game > 0; game /= 2) {
        const int32_t other = t->loser[game];
        const int32_t swap = -(int32_t)goes_first(t, other, run) & (other ^ run);
        t->loser[game] = other ^ swap;
        run ^= swap;
    }
    t->loser[0] = run;
}

/* Start with the first head of each of k >= 1 runs. */
static void begin(Tournament *t, const Spans *s, const int64_t *bounds, int64_t k)
{
    int32_t winner[2 * MAX_RUNS]; /* of the games, then the runs themselves */
    t->k = k;
    for (int64_t run = 0; run < k; run++) {
        t->heads[run] = (Head){0, 0, 0, bounds[run], bounds[run + 1]};
        read_head(s, &t->heads[run]);
        winner[k + run] = (int32_t)run;
    }
    for (int64_t game = k - 1; game > 0; game--) {
        const int32_t a = winner[2 * game], b = winner[2 * game + 1];
        const int first = goes_first(t, a, b);
        winner[game] = first ? a : b;
        t->loser[game] = first ? b : a;
    }
    t->loser[0] = winner[1];
}

/* Write where each sorted run of n spans begins, and n; return how many there are,
 * or -1 where they are more than fit or a span is not below n_spans.
 * bounds: MAX_RUNS + 1. */
EXPORT int64_t ggscope_merge_runs(const int64_t *start, const int64_t *end,
                                  const int32_t *ids, int64_t n, int64_t n_spans,
                                  int64_t *bounds)
{
    int64_t k = 0, last = INT64_MIN, last_tie = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        const int64_t span = ids ? ids[i] : i;
        if (span < 0 || span >= n_spans)
            return -1;
        const int64_t s = start[span], tie = tie_of(s, end ? end[span] : s, end != NULL);
        if (i == 0 || s < last || (s == last && tie < last_tie)) {
            if (k == MAX_RUNS)
                return -1;
            bounds[k++] = i;
        }
        last = s;
        last_tie = tie;
    }
    bounds[k] = n;
    return k;
}

/* Write ids in merged order; order: as many as there are spans, k: 1..MAX_RUNS. */
EXPORT void ggscope_merge_order(const int64_t *start, const int64_t *end,
                                const int32_t *ids, const int64_t *bounds, int64_t k,
                                int32_t *order)
{
    const Spans s = {start, end, ids};
    Tournament t;
    begin(&t, &s, bounds, k);
    const int64_t n = bounds[k];
    for (int64_t i = 0; i < n; i++) {
        const int32_t run = t.loser[0];
        const int64_t at = t.heads[run].at++;
        order[i] = (int32_t)(ids ? ids[at] : at);
        read_head(&s, &t.heads[run]);
        play(&t, run);
    }
}

/* Write the union of the spans as rows.flatten says; return how many are left.
 * first, stop, order: as many as there are spans. */
EXPORT int64_t ggscope_merge_flatten(const int64_t *start, const int64_t *end,
                                     const int32_t *ids, const int64_t *bounds,
                                     int64_t k, int64_t *first, int64_t *stop,
                                     int32_t *order)
{
    const Spans s = {start, end, ids};
    Tournament t;
    begin(&t, &s, bounds, k);
    int64_t n = 0, reach = INT64_MIN;
    for (int64_t i = 0; i < bounds[k]; i++) {
        const int32_t run = t.loser[0];
        Head *head = &t.heads[run];
        const int64_t from = head->start > reach ? head->start : reach;
        /* An instant is hidden only strictly inside another span. What is hidden
         * is written too, and the next one over it: that spares a branch. */
        const int seen =
            head->end > from || (head->start == head->end && from == head->start);
        first[n] = from;
        stop[n] = head->end;
        order[n] = ids ? ids[head->at] : (int32_t)head->at;
        n += seen;
        reach = head->end > reach ? head->end : reach;
        head->at++;
        read_head(&s, head);
        play(&t, run);
    }
    return n;
}
