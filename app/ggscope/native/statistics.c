/* Figures of spans by group, without sorting them.
 *
 * One pass counts: spans, sums, extremes and, per group, a histogram of the
 * durations whose buckets are 2^-mantissa wide in proportion. The histogram says in
 * which bucket each wanted rank lies; a second pass collects the durations of those
 * buckets only, which are then sorted. analysis/statistics/table.py sorts
 * everything; tests hold the two together.
 *
 * Several threads may run a pass at once over different spans: each has figures of
 * its own in the first pass; in the second they share cursors, which are atomic.
 * Every number from a column is checked before it is used as an index.
 */
#include "native.h"

#include <string.h>

#define REPEATED 128 /* the flag of spans whose op is counted with another span */
/* model/tables.py: the wait of a span is not recorded; it is so long or longer. */
#define NO_WAIT 0xFFFFFFFFu
#define LONGEST_WAIT 0xFFFFFFFEu
#define FEW_RUNS 16 /* of so many the one that is next is found without a heap */
#define N_CELL 5 /* figures of a cell of a table of two groupings */
#define SMALL 24 /* up to so many values insertion is the quickest way to sort */
#define BATCH 1024 /* spans that are looked at together; their sums are near */
#define AHEAD 64 /* spans of a run: so far before it is its turn one is fetched */
#define MAX_RUNS 256 /* order/time_merge.py; the number of a run is a byte */
#define MAX_SHARING 64 /* groups that may share time; scan.MAX_SHARING */
#define NOT_PLAIN 71 /* the flags of spans that are not MEASURED */
#define CODE_BITS 6 /* of the bucket of a duration, besides those of the mantissa */

enum { MEASURED, DERIVED, ESTIMATED, UNFINISHED, N_QUALITIES };

/* Which spans count, for which group, and how much of each. */
typedef struct {
    const int64_t *start, *end;
    const void *flags;      /* their low seven bits are the quality, then REPEATED */
    const void *column;     /* what spans are grouped by; NULL: one group, 0 */
    const void *op;         /* spans with op < 0 are left out; NULL: none are */
    const uint8_t *mask;    /* spans with 0 are left out; NULL: none are */
    const void *pattern;    /* what a span accesses; NULL: nothing */
    const int32_t *table;   /* group of column value low + i; -1: none */
    const int64_t *bytes;   /* of each pattern: known ones, */
    const int64_t *unknown; /* and those that may be moved besides */
    const uint8_t *is_open; /* whether some of its bytes are not known */
    const int64_t *op_ticks; /* of the op that a span is of, on all threads, -1: not
                              * known; NULL: as long as the span */
    const uint32_t *wait;   /* behind each span; NULL: no waits are recorded */
    /* Where spans are shared out among groups (experts, sources): what accesses
     * pattern p has a part for each of split_first[p] up to split_first[p + 1]; the
     * last entry is for spans that access nothing. NULL: each span is in one group. */
    const int64_t *split_first, *split_group;
    const int64_t *split_bytes, *split_unknown; /* of each part */
    const int64_t *split_before, *split_after, *split_whole; /* its share of the time */
    /* Disjoint ranges of time in which alone spans cover anything, ascending, and how
     * much of them lies before each. */
    const int64_t *window_start, *window_end, *window_before;
    int64_t n_windows; /* 0: any time counts */
    /* Of each span, 1 + its place in the histogram of the first pass, which writes it: so
     * that what comes after need not find out again which group it is in. 0 where it is
     * not to be counted, or its time is not used. NULL: nothing is written. */
    int32_t *key;
    int64_t low, n_table, n_groups, n_patterns;
    int64_t time_start, time_end;
    /* bytes per value, signed */
    int32_t column_width, op_width, flags_width, pattern_width;
    int32_t has_time, worst_used, mantissa;
} Selection;

/* What the first pass adds up of the spans of a group that are measured, in no range or
 * on its edge, with no wait recorded: most spans, so it lies close together. */
typedef struct {
    int64_t n, total, min, max;
    int64_t outside;      /* the part of the total that lies outside of the range */
    int64_t bytes, open;  /* known ones, and ops of which some are not known */
    int64_t op_ticks;     /* of the ops; 0 where they are as long as their spans */
} Plain;

/* What the first pass adds up; n_groups of each. */
typedef struct {
    int64_t *spans; /* [n_groups * N_QUALITIES] */
    int64_t *bytes, *total, *inside, *min, *max, *unknown, *ops;
    int64_t *wait, *waits, *longest; /* their sum, how many, how many are cut */
    int64_t *open; /* ops of which some bytes are not known */
    int64_t *op_ticks, *op_bytes, *op_open; /* the same and time and bytes of the ops
                                             * whose time is known */
    Plain *plain; /* [n_groups * 2], of ops' own spans and of REPEATED ones; what is in
                   * here is in no other figure, but for `unknown` */
    uint32_t *histogram; /* [n_groups * n_codes] */
} Figures;

static inline int64_t number(const void *column, int32_t width, int64_t i)
{
    switch (width) {
    case 1: return ((const int8_t *)column)[i];
    case 2: return ((const int16_t *)column)[i];
    case 4: return ((const int32_t *)column)[i];
    default: return ((const int64_t *)column)[i];
    }
}

/* Return the group of span i, -1 where it is not to be counted. */
static inline int64_t group_of(const Selection *s, int64_t i)
{
    if (s->mask && !s->mask[i])
        return -1;
    if (s->op && number(s->op, s->op_width, i) < 0)
        return -1;
    if (s->has_time && !(s->start[i] < s->time_end
                         && (s->end[i] > s->time_start || s->start[i] >= s->time_start)))
        return -1;
    if (!s->column)
        return 0;
    int64_t value = number(s->column, s->column_width, i);
    if (value < s->low || (uint64_t)value - (uint64_t)s->low >= (uint64_t)s->n_table)
        return -1;
    int64_t group = s->table[value - s->low];
    return group < s->n_groups ? group : -1;
}

static inline int quality_of(const Selection *s, int64_t i)
{
    int64_t flags = number(s->flags, s->flags_width, i);
    if (flags & 4)
        return UNFINISHED;
    if (flags & 64)
        return ESTIMATED;
    return flags & 3 ? DERIVED : MEASURED;
}

static inline int64_t between(int64_t start, int64_t end)
{
    return end > start ? end - start : 0;
}

static inline int64_t duration_of(const Selection *s, int64_t i)
{
    return between(s->start[i], s->end[i]);
}

/* Return how much of span i lies inside the range. */
static inline int64_t inside_of(const Selection *s, int64_t i)
{
    int64_t start = s->start[i], end = s->end[i];
    return between(start > s->time_start ? start : s->time_start,
                   end < s->time_end ? end : s->time_end);
}

/* Return the bucket of a duration: exact below 2^mantissa, then that many buckets
 * for every power of two. Ascends with the value. */
static inline int64_t code_of(int64_t value, int32_t mantissa)
{
    uint64_t v = (uint64_t)value;
    if (v >> mantissa == 0)
        return (int64_t)v;
    int shift = 63 - __builtin_clzll(v) - mantissa;
    return (int64_t)(((uint64_t)shift << mantissa) + (v >> shift));
}

static inline int64_t n_codes(int32_t mantissa)
{
    return (int64_t)1 << (CODE_BITS + mantissa);
}

/* Return the key of a span whose time is used. */
static inline int32_t key_in(int64_t group, int64_t duration, int32_t mantissa)
{
    return (int32_t)(1 + group * n_codes(mantissa) + code_of(duration, mantissa));
}

/* Return the group of span i, -1 where it is not to be counted or has no time that is
 * used. */
static inline int64_t timed_group_of(const Selection *s, int64_t i)
{
    if (s->key)
        return s->key[i] > 0 ? (s->key[i] - 1) >> (CODE_BITS + s->mantissa) : -1;
    return quality_of(s, i) > s->worst_used ? -1 : group_of(s, i);
}

/* Return part / whole of a time, as analysis/reads/file_blocks.py does. */
static inline int64_t scaled(int64_t part, int64_t time, int64_t whole)
{
    const int64_t rest = time % whole;
    const int64_t share =
        part == whole ? rest : (int64_t)((double)part / (double)whole * (double)rest);
    return part * (time / whole) + share;
}

/* Return how much of a span's time part k is. */
static inline int64_t part_of(const Selection *s, int64_t k, int64_t time)
{
    const int64_t whole = s->split_whole[k];
    if (whole == 1)
        return time;
    return scaled(s->split_after[k], time, whole)
           - scaled(s->split_before[k], time, whole);
}

/* Return the entry of what span i accesses in the tables of parts. */
static inline int64_t split_of(const Selection *s, int64_t i)
{
    const int64_t pattern = s->pattern ? number(s->pattern, s->pattern_width, i) : -1;
    return pattern >= 0 && pattern < s->n_patterns - 1 ? pattern : s->n_patterns - 1;
}

/* First pass over spans that are shared out. */
static void count_parts(const Selection *s, int64_t first, int64_t stop,
                        const Figures *f)
{
    const int64_t codes = n_codes(s->mantissa);
    for (int64_t i = first; i < stop; i++) {
        if (group_of(s, i) < 0)
            continue;
        const int64_t entry = split_of(s, i);
        const int quality = quality_of(s, i), used = quality <= s->worst_used;
        const int is_own = !(number(s->flags, s->flags_width, i) & REPEATED);
        const int has_wait = s->wait && s->wait[i] != NO_WAIT;
        const int64_t ticks = s->op_ticks ? s->op_ticks[i] : duration_of(s, i);
        const int64_t length = duration_of(s, i);
        const int64_t within = s->has_time ? inside_of(s, i) : 0;
        for (int64_t k = s->split_first[entry]; k < s->split_first[entry + 1]; k++) {
            const int64_t group = s->split_group[k];
            if (group < 0 || group >= s->n_groups)
                continue;
            f->spans[group * N_QUALITIES + quality]++;
            f->ops[group] += is_own;
            if (is_own) {
                const int is_open = s->is_open[entry];
                f->bytes[group] += s->split_bytes[k];
                f->unknown[group] += s->split_unknown[k];
                f->open[group] += is_open;
                if (used && ticks >= 0) {
                    f->op_ticks[group] += ticks;
                    f->op_bytes[group] += s->split_bytes[k];
                    f->op_open[group] += is_open;
                }
            }
            if (has_wait) {
                f->wait[group] += part_of(s, k, s->wait[i]);
                f->waits[group]++;
                f->longest[group] += s->wait[i] == LONGEST_WAIT;
            }
            if (!used)
                continue;
            const int64_t part = part_of(s, k, length);
            f->total[group] += part;
            f->inside[group] += s->has_time ? part_of(s, k, within) : 0;
            if (part < f->min[group])
                f->min[group] = part;
            if (part > f->max[group])
                f->max[group] = part;
            f->histogram[group * codes + code_of(part, s->mantissa)]++;
        }
    }
}

/* Write the groups of n spans from `first` on, -1 where one is not to be counted. What
 * does not change from span to span is asked for once, not for each of them. */
#define EACH(type, columns, body)                                                      \
    {                                                                                  \
        const type *const column = (const type *)(columns) + first;                    \
        for (int64_t k = 0; k < n; k++) {                                              \
            body                                                                       \
        }                                                                              \
    }
#define BY_WIDTH(width, columns, body)                                                 \
    switch (width) {                                                                   \
    case 1: EACH(int8_t, columns, body) break;                                         \
    case 2: EACH(int16_t, columns, body) break;                                        \
    case 4: EACH(int32_t, columns, body) break;                                        \
    default: EACH(int64_t, columns, body)                                              \
    }

static void groups_of(const Selection *s, int64_t first, int64_t n, int32_t *group)
{
    if (s->column) {
        const int64_t low = s->low;
        const uint64_t n_table = (uint64_t)s->n_table;
        const int32_t n_groups =
            s->n_groups < INT32_MAX ? (int32_t)s->n_groups : INT32_MAX;
        BY_WIDTH(s->column_width, s->column, {
            const int64_t value = column[k];
            const uint64_t at = (uint64_t)value - (uint64_t)low;
            const int32_t one = value >= low && at < n_table ? s->table[at] : -1;
            group[k] = one < n_groups ? one : -1;
        })
    } else {
        memset(group, 0, (size_t)n * sizeof *group);
    }
    if (s->op)
        BY_WIDTH(s->op_width, s->op, group[k] = column[k] < 0 ? -1 : group[k];)
    if (s->mask)
        EACH(uint8_t, s->mask, group[k] = column[k] ? group[k] : -1;)
    if (s->has_time)
        for (int64_t k = 0; k < n; k++) {
            const int64_t start = s->start[first + k];
            if (start >= s->time_start && start < s->time_end)
                continue;
            if (!(start < s->time_end && s->end[first + k] > s->time_start))
                group[k] = -1;
        }
}

/* Add a span of a group to all of its figures but the histogram. */
static void count_one(const Selection *s, int64_t i, int64_t group, const Figures *f)
{
    const int quality = quality_of(s, i);
    f->spans[group * N_QUALITIES + quality]++;
    const int is_own = !(number(s->flags, s->flags_width, i) & REPEATED);
    f->ops[group] += is_own;
    if (is_own) {
        const int64_t pattern =
            s->pattern ? number(s->pattern, s->pattern_width, i) : -1;
        const int is_known = pattern >= 0 && pattern < s->n_patterns;
        const int64_t bytes = is_known ? s->bytes[pattern] : 0;
        const int is_open = !is_known || s->is_open[pattern];
        f->bytes[group] += bytes;
        f->unknown[group] += is_known ? s->unknown[pattern] : 0;
        f->open[group] += is_open;
        const int64_t ticks = s->op_ticks ? s->op_ticks[i] : duration_of(s, i);
        if (quality <= s->worst_used && ticks >= 0) {
            f->op_ticks[group] =
                (int64_t)((uint64_t)f->op_ticks[group] + (uint64_t)ticks);
            f->op_bytes[group] += bytes;
            f->op_open[group] += is_open;
        }
    }
    if (s->wait && s->wait[i] != NO_WAIT) {
        f->wait[group] += s->wait[i];
        f->waits[group]++;
        f->longest[group] += s->wait[i] == LONGEST_WAIT;
    }
    if (quality > s->worst_used)
        return;
    const int64_t duration = duration_of(s, i);
    f->total[group] = (int64_t)((uint64_t)f->total[group] + (uint64_t)duration);
    if (s->has_time)
        f->inside[group] =
            (int64_t)((uint64_t)f->inside[group] + (uint64_t)inside_of(s, i));
    if (duration < f->min[group])
        f->min[group] = duration;
    if (duration > f->max[group])
        f->max[group] = duration;
}

/* Write the low bytes of the flags, and what n spans from `first` on access, -1 where
 * nobody knows. */
static void read_flags(const Selection *s, int64_t first, int64_t n, uint8_t *flags,
                       int32_t *pattern)
{
    BY_WIDTH(s->flags_width, s->flags, flags[k] = (uint8_t)column[k];)
    if (!s->pattern) {
        memset(pattern, -1, (size_t)n * sizeof *pattern);
        return;
    }
    const int64_t n_patterns = s->n_patterns < INT32_MAX ? s->n_patterns : INT32_MAX;
    BY_WIDTH(s->pattern_width, s->pattern, {
        const int64_t one = column[k];
        pattern[k] = one >= 0 && one < n_patterns ? (int32_t)one : -1;
    })
}

/* First pass over spans first <= i < stop: add them to the figures. Writes their keys,
 * unless they are shared out. */
EXPORT void ggscope_statistics_count(const Selection *s, int64_t first, int64_t stop,
                                     const Figures *f)
{
    if (s->split_first) {
        count_parts(s, first, stop, f);
        return;
    }
    int32_t batch_group[BATCH], batch_key[BATCH], batch_pattern[BATCH];
    uint8_t batch_flags[BATCH];
    const int32_t mantissa = s->mantissa;
    const int64_t time_start = s->has_time ? s->time_start : INT64_MIN;
    const int64_t time_end = s->has_time ? s->time_end : INT64_MAX;
    for (int64_t begin = first; begin < stop; begin += BATCH) {
        const int64_t n = smaller(stop - begin, BATCH);
        int32_t *const key = s->key ? s->key + begin : batch_key;
        groups_of(s, begin, n, batch_group);
        read_flags(s, begin, n, batch_flags, batch_pattern);
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = begin + k;
            const int32_t group = batch_group[k];
            key[k] = 0;
            if (group < 0)
                continue;
            const int64_t duration = duration_of(s, i);
            const int is_own = !(batch_flags[k] & REPEATED);
            const int is_timed = !is_own || !s->op_ticks || s->op_ticks[i] >= 0;
            if (batch_flags[k] & NOT_PLAIN || s->wait || !is_timed) {
                count_one(s, i, group, f);
                if (quality_of(s, i) <= s->worst_used)
                    key[k] = key_in(group, duration, mantissa);
                continue;
            }
            key[k] = key_in(group, duration, mantissa);
            Plain *const p = f->plain + 2 * group + !is_own;
            p->n++;
            p->total = (int64_t)((uint64_t)p->total + (uint64_t)duration);
            if (s->start[i] < time_start || s->end[i] > time_end)
                p->outside = (int64_t)((uint64_t)p->outside + (uint64_t)duration
                                       - (uint64_t)inside_of(s, i));
            if (duration < p->min)
                p->min = duration;
            if (duration > p->max)
                p->max = duration;
            if (!is_own)
                continue;
            if (s->op_ticks)
                p->op_ticks =
                    (int64_t)((uint64_t)p->op_ticks + (uint64_t)s->op_ticks[i]);
            const int32_t pattern = batch_pattern[k];
            if (pattern < 0) {
                p->open++;
                continue;
            }
            p->bytes += s->bytes[pattern];
            p->open += s->is_open[pattern];
            if (s->unknown[pattern])
                f->unknown[group] += s->unknown[pattern];
        }
        for (int64_t k = 0; k < n; k++)
            if (key[k] > 0)
                f->histogram[key[k] - 1]++;
    }
}

static inline void add_to_cell(int64_t *cell, int is_used, int is_own, int64_t ticks,
                               int64_t bytes)
{
    cell[0]++;
    cell[1] += is_used;
    cell[2] += is_own;
    cell[3] = (int64_t)((uint64_t)cell[3] + (uint64_t)(is_used ? ticks : 0));
    cell[4] += is_own ? bytes : 0;
}

/* Add spans first <= i < stop to the cells of a table: groups of `rows`, which says
 * what counts, by those of `columns`. sums[(row * n_columns + column) * N_CELL]: spans,
 * those whose time is used, ops, their time, bytes. */
EXPORT void ggscope_statistics_cross(const Selection *rows, const Selection *columns,
                                     int64_t first, int64_t stop, int64_t *sums)
{
    for (int64_t i = first; i < stop; i++) {
        const int64_t row = group_of(rows, i);
        const int64_t column = row < 0 ? -1 : group_of(columns, i);
        if (column < 0)
            continue;
        const int is_used = quality_of(rows, i) <= rows->worst_used;
        const int is_own = !(number(rows->flags, rows->flags_width, i) & REPEATED);
        const int64_t length = duration_of(rows, i);
        if (rows->split_first) {
            const int64_t entry = split_of(rows, i);
            const int64_t end = rows->split_first[entry + 1];
            for (int64_t k = rows->split_first[entry]; k < end; k++) {
                const int64_t group = rows->split_group[k];
                if (group >= 0 && group < rows->n_groups)
                    add_to_cell(sums + (group * columns->n_groups + column) * N_CELL,
                                is_used, is_own, part_of(rows, k, length),
                                rows->split_bytes[k]);
            }
            continue;
        }
        const int64_t pattern =
            rows->pattern ? number(rows->pattern, rows->pattern_width, i) : -1;
        const int is_known = pattern >= 0 && pattern < rows->n_patterns;
        add_to_cell(sums + (row * columns->n_groups + column) * N_CELL, is_used, is_own,
                    length, is_known ? rows->bytes[pattern] : 0);
    }
}

/* Count n values, none below 0, by bucket. */
EXPORT void ggscope_statistics_bucket(const int64_t *values, int64_t n,
                                      int32_t mantissa, int64_t *counts)
{
    for (int64_t i = 0; i < n; i++)
        if (values[i] >= 0)
            counts[code_of(values[i], mantissa)]++;
}

/* Find the bucket of each wanted rank.
 *
 * rank[n_groups * n_ranks] ascends within a group; -1 = not wanted. Writes the bucket
 * (its place in the histogram, -1 for none) and how many durations of the group lie
 * before it. */
EXPORT void ggscope_statistics_find(const uint32_t *histogram, int64_t n_groups,
                                    int32_t mantissa, int64_t n_ranks,
                                    const int64_t *rank, int64_t *bucket,
                                    int64_t *before)
{
    const int64_t codes = n_codes(mantissa);
    for (int64_t group = 0; group < n_groups; group++) {
        int64_t code = 0, sum = 0;
        for (int64_t k = group * n_ranks; k < (group + 1) * n_ranks; k++) {
            bucket[k] = -1;
            before[k] = 0;
            if (rank[k] < 0)
                continue;
            while (code < codes && sum + histogram[group * codes + code] <= rank[k])
                sum += histogram[group * codes + code++];
            if (code == codes)
                continue;
            bucket[k] = group * codes + code;
            before[k] = sum;
        }
    }
}

static inline void collect(int64_t duration, int64_t k, int64_t *cursor,
                           const int64_t *limit, int64_t *values)
{
    const int64_t at = __atomic_fetch_add(&cursor[k], 1, __ATOMIC_RELAXED);
    if (at < limit[k])
        values[at] = duration;
}

/* Second pass: collect the durations of wanted buckets.
 *
 * slot[n_groups * n_codes] is 1 + the number of a wanted bucket, 0 for the others;
 * durations of bucket k go to values[cursor[k]] up to values[limit[k] - 1]. */
EXPORT void ggscope_statistics_collect(const Selection *s, int64_t first, int64_t stop,
                                       const uint32_t *slot, int64_t n_slots,
                                       int64_t *cursor, const int64_t *limit,
                                       int64_t *values)
{
    const int64_t codes = n_codes(s->mantissa);
    if (s->key) {
        for (int64_t i = first; i < stop; i++) {
            const int64_t k = s->key[i] > 0 ? (int64_t)slot[s->key[i] - 1] - 1 : -1;
            if (k >= 0 && k < n_slots)
                collect(duration_of(s, i), k, cursor, limit, values);
        }
        return;
    }
    for (int64_t i = first; i < stop; i++) {
        int64_t group = group_of(s, i);
        if (group < 0 || quality_of(s, i) > s->worst_used)
            continue;
        const int64_t length = duration_of(s, i);
        int64_t part = 0, n_parts = 1;
        if (s->split_first) {
            const int64_t entry = split_of(s, i);
            part = s->split_first[entry];
            n_parts = s->split_first[entry + 1] - part;
        }
        for (; n_parts > 0; n_parts--, part++) {
            int64_t duration = length;
            if (s->split_first) {
                group = s->split_group[part];
                if (group < 0 || group >= s->n_groups)
                    continue;
                duration = part_of(s, part, length);
            }
            const int64_t k =
                (int64_t)slot[group * codes + code_of(duration, s->mantissa)] - 1;
            if (k >= 0 && k < n_slots)
                collect(duration, k, cursor, limit, values);
        }
    }
}

/* Sort n values that agree in all bits above `bit`: by that bit, then each half.
 * Never slower than one step per bit and value, whatever the values. */
static void sort_by_bits(int64_t *values, int64_t n, int bit)
{
    while (n > SMALL && bit >= 0) {
        int64_t low = 0, high = n;
        while (low < high) {
            int64_t value = values[low];
            if (value >> bit & 1) {
                values[low] = values[--high];
                values[high] = value;
            } else {
                low++;
            }
        }
        sort_by_bits(values, low, --bit);
        values += low;
        n -= low;
    }
    if (bit < 0)
        return;
    for (int64_t i = 1; i < n; i++) {
        int64_t value = values[i], k = i;
        for (; k > 0 && values[k - 1] > value; k--)
            values[k] = values[k - 1];
        values[k] = value;
    }
}

/* Sort each run values[first[k]] .. values[first[k + 1] - 1]; values are >= 0. */
EXPORT void ggscope_statistics_sort(int64_t *values, const int64_t *first,
                                    int64_t n_runs)
{
    for (int64_t k = 0; k < n_runs; k++) {
        int64_t *run = values + first[k], n = first[k + 1] - first[k];
        uint64_t varies = 0;
        for (int64_t i = 1; i < n; i++)
            varies |= (uint64_t)(run[i] ^ run[0]);
        if (varies)
            sort_by_bits(run, n, 63 - __builtin_clzll(varies));
    }
}

/* Runs of spans in order of time, from cursor[k] up to stop[k], as a heap by start. */
static void sift(const int64_t *start, const int64_t *cursor, int64_t *heap, int64_t n,
                 int64_t at)
{
    const int64_t run = heap[at], mine = start[cursor[run]];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && start[cursor[heap[child + 1]]] < start[cursor[heap[child]]])
            child++;
        if (start[cursor[heap[child]]] >= mine)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = run;
}

/* Return how much of the time that counts lies before a tick: the tick itself where
 * any time does. hint: the window that was looked at last, where this one likely is. */
static inline int64_t elapsed(const Selection *s, int64_t tick, int64_t *hint)
{
    const int64_t n = s->n_windows;
    if (n == 0)
        return tick;
    int64_t at = *hint;
    const int64_t *start = s->window_start;
    if (at + 1 < n && tick >= start[at + 1])
        at++;
    if (tick < start[at] || (at + 1 < n && tick >= start[at + 1])) {
        int64_t stop = n; /* the last window that begins by then, else the first */
        at = 0;
        while (stop - at > 1) {
            const int64_t middle = at + (stop - at) / 2;
            if (start[middle] <= tick)
                at = middle;
            else
                stop = middle;
        }
    }
    *hint = at;
    if (tick < start[at])
        return s->window_before[at];
    return s->window_before[at] + smaller(tick, s->window_end[at]) - start[at];
}

/* Raise reach[n_groups + 1] to the latest end of the spans first <= i < stop: of each
 * group, and the last one of all.
 *
 * is_flat: no two of those that count share time. Then, as they are in the order of
 * time, only the last one may reach beyond what comes. */
EXPORT void ggscope_statistics_reach(const Selection *s, int64_t first, int64_t stop,
                                     int32_t is_flat, int64_t *reach)
{
    int64_t all = reach[s->n_groups], hint = 0;
    for (int64_t i = stop - 1; i >= first; i--) {
        if (s->end[i] <= s->start[i])
            continue;
        const int64_t group = timed_group_of(s, i);
        if (group >= 0) {
            const int64_t high = elapsed(s, s->end[i], &hint);
            if (high > reach[group])
                reach[group] = high;
            if (high > all)
                all = high;
            if (is_flat)
                break;
        }
    }
    reach[s->n_groups] = all;
}

/* Tell whether any span begins within one of those that count among first <= i < stop,
 * which are of one lane and in the order of time.
 *
 * op: only those with op >= 0 count; NULL: all do. */
EXPORT int32_t ggscope_statistics_meets(const Selection *s, const void *op,
                                        int32_t op_width, int64_t first, int64_t stop)
{
    int64_t reach = INT64_MIN;
    for (int64_t i = first; i < stop; i++) {
        const int64_t low = s->start[i], high = s->end[i];
        if (quality_of(s, i) > s->worst_used || high <= low)
            continue;
        if (low < reach)
            return 1;
        if (!op || number(op, op_width, i) >= 0)
            reach = high;
    }
    return 0;
}

/* Add what span i covers beyond what those that began before it do. */
static inline void cover(const Selection *s, int64_t i, int64_t *reach, int64_t *wall,
                         int64_t *hint)
{
    const int64_t group = timed_group_of(s, i);
    if (group < 0)
        return;
    const int64_t low = elapsed(s, s->start[i], hint);
    const int64_t high = elapsed(s, s->end[i], hint);
    const int64_t both[2] = {group, s->n_groups};
    for (int k = 0; k < 2; k++) {
        /* Which of several lanes goes on for longest is anybody's guess, also the
         * processor's: no branches. */
        const int64_t before = reach[both[k]];
        const int64_t from = before > low ? before : low;
        wall[both[k]] += high > from ? high - from : 0;
        reach[both[k]] = high > before ? high : before;
    }
}

static int64_t least_start(const int64_t *start, const int64_t *cursor,
                           const int64_t *heap, int64_t n)
{
    int64_t least = INT64_MAX;
    for (int64_t k = 0; k < n; k++)
        least = start[cursor[heap[k]]] < least ? start[cursor[heap[k]]] : least;
    return least;
}

/* Tell whether all that comes begins so soon after `base` that `key_of` can hold it. */
static int fits_beside(const int64_t *start, const int64_t *stop, const int64_t *heap,
                       int64_t n, int64_t base)
{
    for (int64_t k = 0; k < n; k++)
        if ((uint64_t)start[stop[heap[k]] - 1] - (uint64_t)base >= UINT64_MAX / FEW_RUNS)
            return 0;
    return 1;
}

static inline uint64_t key_of(int64_t start, int64_t base, int64_t at)
{
    return ((uint64_t)start - (uint64_t)base) * FEW_RUNS + (uint64_t)at;
}

/* Return the least of FEW_RUNS / 2 keys, without a branch. */
static inline uint64_t least_of_half(const uint64_t *key)
{
    const uint64_t a = key[0] < key[1] ? key[0] : key[1];
    const uint64_t b = key[2] < key[3] ? key[2] : key[3];
    const uint64_t c = key[4] < key[5] ? key[4] : key[5];
    const uint64_t d = key[6] < key[7] ? key[6] : key[7];
    const uint64_t e = a < b ? a : b, f = c < d ? c : d;
    return e < f ? e : f;
}

/* Write which run each of the next spans in the order of time is of, at most `budget` of
 * them; return how many that were, 0 at the end.
 *
 * stop, cursor, heap: [n_runs], the first two ascend with the runs; cursors move on. */
static int64_t merge_turns(const int64_t *start, const int64_t *stop, int64_t *cursor,
                           int64_t *heap, int64_t n_runs, int64_t budget,
                           uint8_t *turns)
{
    int64_t n = 0, done = 0;
    for (int64_t k = 0; k < n_runs; k++)
        if (cursor[k] < stop[k])
            heap[n++] = k;
    if (n <= FEW_RUNS && n > 0) {
        /* A heap waits for three loads at each of its levels, and mostly guesses wrong.
         * A few starts that lie side by side, each with the place of its run below it,
         * are looked through sooner: the least of them says which run it is. */
        const int64_t base = least_start(start, cursor, heap, n);
        if (fits_beside(start, stop, heap, n, base)) {
            /* And the ones behind them: which is next need not wait for the columns. */
            uint64_t next[FEW_RUNS], ahead[FEW_RUNS];
            for (int64_t k = 0; k < FEW_RUNS; k++) {
                const int64_t run = k < n ? heap[k] : 0, at = cursor[run];
                next[k] = k < n ? key_of(start[at], base, k) : UINT64_MAX;
                ahead[k] = k < n && at + 1 < stop[run] ? key_of(start[at + 1], base, k)
                                                       : UINT64_MAX;
            }
            const int is_half = n <= FEW_RUNS / 2;
            while (done < budget) {
                uint64_t least = least_of_half(next);
                if (!is_half) {
                    const uint64_t other = least_of_half(next + FEW_RUNS / 2);
                    least = other < least ? other : least;
                }
                if (least == UINT64_MAX)
                    break;
                const int64_t at = (int64_t)(least % FEW_RUNS), run = heap[at];
                const int64_t i = cursor[run]++;
                turns[done++] = (uint8_t)run;
                next[at] = ahead[at];
                ahead[at] =
                    i + 2 < stop[run] ? key_of(start[i + 2], base, at) : UINT64_MAX;
                PREFETCH(start + i + AHEAD);
            }
            return done;
        }
    }
    for (int64_t at = n / 2 - 1; at >= 0; at--)
        sift(start, cursor, heap, n, at);
    while (n > 0 && done < budget) {
        const int64_t run = heap[0];
        turns[done++] = (uint8_t)run;
        if (++cursor[run] >= stop[run])
            heap[0] = heap[--n];
        if (n > 1)
            sift(start, cursor, heap, n, 0);
    }
    return done;
}

/* The same for several calls, one part of the order each. */
EXPORT int64_t ggscope_statistics_turns(const int64_t *start, const int64_t *stop,
                                        int64_t *cursor, int64_t *heap, int64_t n_runs,
                                        int64_t budget, uint8_t *turns)
{
    return n_runs > MAX_RUNS
               ? 0
               : merge_turns(start, stop, cursor, heap, n_runs, budget, turns);
}

/* Some sorted runs of spans, gone over in the order of time.
 *
 * turns: the runs of the next spans; NULL: found out here. stop, cursor, heap: [n_runs],
 * the first two ascend with the runs; cursors move on. */
typedef struct {
    const int64_t *stop;
    int64_t *cursor, *heap;
    int64_t n_runs;
    const uint8_t *turns;
} Order;

/* Write the next spans in the order of time, at most BATCH and `budget` of them, but
 * for those that the keys leave out. Moves the cursors on. Returns how many spans were
 * gone over, and into `n` how many were written. */
static int64_t next_spans(const Selection *s, const Order *o, int64_t done,
                          int64_t budget, int64_t *spans, int64_t *n)
{
    uint8_t merged[BATCH];
    int64_t ahead[MAX_RUNS], count = smaller(budget, BATCH);
    const uint8_t *turn = merged;
    const int32_t *const key = s->key;
    *n = 0;
    if (o->turns) {
        turn = o->turns + done;
    } else {
        memcpy(ahead, o->cursor, (size_t)o->n_runs * sizeof *ahead);
        count = merge_turns(s->start, o->stop, ahead, o->heap, o->n_runs, count, merged);
    }
    for (int64_t k = 0; k < count; k++) {
        const int64_t run = turn[k];
        if (run >= o->n_runs || o->cursor[run] >= o->stop[run])
            return 0;
        const int64_t i = o->cursor[run]++;
        PREFETCH(s->start + i + AHEAD);
        PREFETCH(s->end + i + AHEAD);
        if (key)
            PREFETCH(key + i + AHEAD);
        spans[*n] = i;
        *n += !key || key[i];
    }
    return count;
}

/* Add up how much time the spans of each group cover together: go over at most
 * `budget` spans in the order of time and return how many that were, 0 at the end.
 *
 * reach, wall: [n_groups + 1], the latest end so far, and the time; the last one is of
 * all groups together. Groups that began nowhere have a reach of INT64_MIN; where the
 * spans are shared out by time, it is that of all spans before these. */
EXPORT int64_t ggscope_statistics_cover(const Selection *s, const Order *o,
                                        int64_t budget, int64_t *reach, int64_t *wall)
{
    int64_t spans[BATCH], done = 0, hint = 0;
    while (o->n_runs <= MAX_RUNS && done < budget) {
        int64_t n;
        const int64_t count = next_spans(s, o, done, budget - done, spans, &n);
        if (count == 0)
            break;
        for (int64_t k = 0; k < n; k++)
            cover(s, spans[k], reach, wall, &hint);
        done += count;
    }
    return done;
}

/* The time up to which it is known which groups run, and into which stretch of time it
 * falls. `due`: before then none of those that run ends. */
typedef struct {
    int64_t now, stretch, due;
} Moment;

/* Go on to a time: add what passes to the groups that run, by how many run at once. */
static void pass(Moment *m, int64_t until, const int64_t *edge, int64_t n_stretches,
                 const int64_t *reach, int64_t n_groups, int64_t *ticks)
{
    while (m->now < until) {
        while (m->stretch < n_stretches && edge[m->stretch + 1] <= m->now)
            m->stretch++;
        int64_t next = until, n = 0, running[MAX_SHARING];
        if (m->stretch < n_stretches)
            next = smaller(next, edge[m->stretch + 1]);
        for (int64_t group = 0; group < n_groups; group++)
            if (reach[group] > m->now) {
                running[n++] = group;
                next = smaller(next, reach[group]);
            }
        if (m->stretch < n_stretches && edge[m->stretch] <= m->now)
            for (int64_t k = 0; k < n; k++)
                ticks[(m->stretch * n_groups + running[k]) * n_groups + n - 1] +=
                    next - m->now;
        m->now = next;
    }
}

/* Add up how long spans of each group run in stretches of time, by how many groups run
 * at once: go over at most `budget` spans in the order of time and return how many that
 * were, 0 at the end; the time behind them passes with `ggscope_statistics_pass`.
 *
 * Times are those that `elapsed` gives. edge[n_stretches + 1] ascends; stretch k lasts
 * from edge[k] to edge[k + 1]. reach[n_groups]: see above. At most MAX_SHARING groups.
 * ticks[n_stretches * n_groups * n_groups]: by stretch, group, and how many groups run
 * besides. */
EXPORT int64_t ggscope_statistics_share(const Selection *s, const Order *o,
                                        int64_t budget, const int64_t *edge,
                                        int64_t n_stretches, Moment *m, int64_t *reach,
                                        int64_t *ticks)
{
    int64_t spans[BATCH], done = 0, hint = 0;
    const int64_t n_groups = s->n_groups;
    while (o->n_runs <= MAX_RUNS && n_groups <= MAX_SHARING && done < budget) {
        int64_t n;
        const int64_t count = next_spans(s, o, done, budget - done, spans, &n);
        if (count == 0)
            break;
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = spans[k], group = timed_group_of(s, i);
            if (group < 0)
                continue;
            const int64_t low = elapsed(s, s->start[i], &hint);
            const int64_t high = elapsed(s, s->end[i], &hint);
            if (high <= low)
                continue;
            if (low >= m->due || reach[group] <= low) {
                pass(m, low, edge, n_stretches, reach, n_groups, ticks);
                reach[group] = larger(reach[group], high);
                m->due = INT64_MAX;
                for (int64_t one = 0; one < n_groups; one++)
                    if (reach[one] > low)
                        m->due = smaller(m->due, reach[one]);
            } else {
                reach[group] = larger(reach[group], high);
            }
        }
        done += count;
    }
    return done;
}

/* Let the time pass up to `until`; see above. */
EXPORT void ggscope_statistics_pass(Moment *m, int64_t until, const int64_t *edge,
                                    int64_t n_stretches, const int64_t *reach,
                                    int64_t n_groups, int64_t *ticks)
{
    if (n_groups <= MAX_SHARING)
        pass(m, until, edge, n_stretches, reach, n_groups, ticks);
}

/* Return the qualities, a bit each, of the spans first <= i < stop that count and cover
 * some of the time that counts. */
EXPORT int32_t ggscope_statistics_qualities(const Selection *s, int64_t first,
                                            int64_t stop)
{
    int64_t hint = 0;
    int32_t seen = 0;
    for (int64_t i = first; i < stop; i++) {
        const int32_t bit = 1 << quality_of(s, i);
        if (!(seen & bit) && group_of(s, i) >= 0
            && elapsed(s, s->end[i], &hint) > elapsed(s, s->start[i], &hint))
            seen |= bit;
    }
    return seen;
}

/* A span that is open. */
typedef struct {
    int64_t span, end, own;
} Open;

static void book(const Selection *s, const Open *done, int64_t *own)
{
    const int64_t group = group_of(s, done->span);
    if (group >= 0)
        own[group] += done->own;
}

/* Add up how long the spans first <= i < stop, of one lane and in the order of time,
 * are the innermost open ones: of those that are open the one that began last, and of
 * equals the shorter. Returns 0 where no two share time, 1 where some do, 2 where equal
 * starts do not have the longer one first, or more are open than there is room for:
 * then `own` is worth nothing.
 *
 * open: [room]. own: [n_groups]. */
EXPORT int32_t ggscope_statistics_own(const Selection *s, int64_t first, int64_t stop,
                                      Open *open, int64_t room, int64_t *own)
{
    int64_t depth = 0, now = 0, last_start = 0, last_end = 0;
    int32_t meets = 0, has_last = 0;
    for (int64_t i = first; i < stop; i++) {
        const int64_t low = s->start[i], high = s->end[i];
        if (quality_of(s, i) > s->worst_used || high <= low)
            continue;
        if (has_last && low == last_start && high > last_end)
            return 2;
        has_last = 1;
        last_start = low;
        last_end = high;
        while (depth > 0 && open[depth - 1].end <= low) {
            Open *top = &open[--depth];
            if (top->end > now) {
                top->own += top->end - now;
                now = top->end;
            }
            book(s, top, own);
        }
        if (depth > 0) {
            meets = 1;
            if (low > now)
                open[depth - 1].own += low - now;
        }
        if (depth >= room)
            return 2;
        now = low;
        open[depth++] = (Open){i, high, 0};
    }
    while (depth > 0) {
        Open *top = &open[--depth];
        if (top->end > now) {
            top->own += top->end - now;
            now = top->end;
        }
        book(s, top, own);
    }
    return meets;
}
