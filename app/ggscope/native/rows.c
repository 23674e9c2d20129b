/* What rows and their running sums are made from, one pass each over the spans. */
#include "native.h"

/* rows.PREFIX_STEP, columns.LENGTH_BUCKET */
enum { STEP = 16, MAX_OPEN = 1024 };

/* Tell whether n spans are a row as they stand: sorted, without overlap. */
EXPORT int32_t ggscope_rows_are_sorted(const int64_t *start, const int64_t *end,
                                       int64_t n)
{
    /* Blocks without an early exit, so that the comparison is vectorised. */
    for (int64_t begin = 1; begin < n; begin += 4096) {
        const int64_t stop = begin + 4096 < n ? begin + 4096 : n;
        int64_t bad = 0;
        for (int64_t i = begin; i < stop; i++)
            bad |= end[i - 1] > start[i];
        if (bad)
            return 0;
    }
    return 1;
}

/* prefix: n / 16 + 1; covered time before every 16th span. */
EXPORT void ggscope_rows_prefix(const int64_t *start, const int64_t *end, int64_t n,
                                int64_t *prefix)
{
    int64_t total = 0;
    for (int64_t block = 0; block < n / STEP; block++) {
        prefix[block] = total;
        const int64_t *s = start + block * STEP, *e = end + block * STEP;
        int64_t sum = 0;
        for (int64_t i = 0; i < STEP; i++)
            sum += e[i] - s[i];
        total += sum;
    }
    prefix[n / STEP] = total;
}

/* How many spans of its lane are open where each begins; spans are by lane and start,
 * those of no length first, then longer ones. 0 where some overlap without nesting, or
 * too many are open at once. */
EXPORT int32_t ggscope_rows_depths(int64_t n, const int32_t *lane, const int64_t *start,
                                   const int64_t *end, int32_t *depth)
{
    int64_t open_end[MAX_OPEN];
    int32_t n_open = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i && lane[i] != lane[i - 1])
            n_open = 0;
        while (n_open && open_end[n_open - 1] <= start[i])
            n_open--;
        depth[i] = n_open;
        if (end[i] == start[i])
            continue;
        if (n_open == MAX_OPEN || (n_open && end[i] > open_end[n_open - 1]))
            return 0;
        open_end[n_open++] = end[i];
    }
    return 1;
}

/* kept, covered: n / 16 + 1; kept spans before every 16th, and their time. */
EXPORT void ggscope_rows_kept(const int64_t *start, const int64_t *end,
                              const uint8_t *keep, int64_t n, uint32_t *kept,
                              int64_t *covered)
{
    int64_t total = 0;
    uint32_t count = 0;
    for (int64_t begin = 0; begin <= n; begin += STEP) {
        kept[begin / STEP] = count;
        covered[begin / STEP] = total;
        const int64_t stop = begin + STEP < n ? begin + STEP : n;
        /* No branches: what a filter keeps is hard to foretell. */
        for (int64_t i = begin; i < stop; i++) {
            count += keep[i] != 0;
            total += (end[i] - start[i]) & -(int64_t)(keep[i] != 0);
        }
    }
}

/* Write the running sums of pyramid.RunningSums.
 *
 * category: bytes each, below the length of number; keep may be NULL; total: c
 * zeros; fine: (n / bucket + 1) * c; base: (n / bucket / group + 1) * c. */
EXPORT void ggscope_rows_sums(const int64_t *start, const int64_t *end,
                              const void *category, int32_t bytes,
                              const uint16_t *number, const uint8_t *keep, int64_t n,
                              int64_t bucket, int64_t group, int64_t c, int64_t *total,
                              uint32_t *fine, int64_t *base)
{
    const int64_t n_buckets = n / bucket;
    for (int64_t b = 0; b <= n_buckets; b++) {
        int64_t *here = base + b / group * c;
        for (int64_t k = 0; k < c; k++) {
            here[k] = b % group ? here[k] : total[k];
            fine[b * c + k] = (uint32_t)(total[k] - here[k]);
        }
        if (b == n_buckets)
            break;
        for (int64_t i = b * bucket; i < (b + 1) * bucket; i++) {
            const uint32_t code = code_at(category, bytes, i);
            const int64_t counts = keep ? -(int64_t)(keep[i] != 0) : -1;
            total[number[code]] += (end[i] - start[i]) & counts;
        }
    }
}

/* The first span from position i on that does not begin before tick. */
static int64_t first_from(const int64_t *start, int64_t n, int64_t i, int64_t tick)
{
    int64_t step = 1;
    while (i + step <= n && start[i + step - 1] < tick) {
        i += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (i + step <= n && start[i + step - 1] < tick)
            i += step;
    return i;
}

/* Write which span covers most of each column of several spans, of equals the first, by
 * position; -1 of other columns. longest: the greatest length in every 16 spans, which
 * are passed over where it is no greater than what is known; NULL: look at each span. */
EXPORT void ggscope_rows_longest(const int64_t *start, const int64_t *end, int64_t n,
                                 const int64_t *edges, int64_t px,
                                 const int64_t *count, const int64_t *longest,
                                 int64_t *position)
{
    int64_t i = 0;
    for (int64_t k = 0; k < px; k++) {
        position[k] = -1;
        if (count[k] < 2)
            continue;
        const int64_t left = edges[k], right = larger(edges[k + 1], left + 1);
        i = first_from(start, n, i, left);
        int64_t at = i > 0 && end[i - 1] > left ? i - 1 : i, most = -1;
        while (at < n && start[at] < right) {
            if (longest && at % STEP == 0 && at + STEP < n && start[at + STEP] < right &&
                longest[at / STEP] <= most) {
                at += STEP;
                continue;
            }
            const int64_t part = smaller(end[at], right) - larger(start[at], left);
            if (part > most) {
                most = part;
                position[k] = at;
            }
            at++;
        }
    }
}
