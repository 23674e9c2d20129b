/* The exact column picture of many rows; `Columns` in analysis/rows/columns.py
 * says what the results mean.
 *
 * Spans of a row are sorted by start and do not overlap. Edges ascend; a column
 * [edges[k], edges[k + 1]) without width stands for the one tick at its edge.
 *
 * A row that has few spans per column is walked from end to end. Of others only
 * the edges are looked up: by a search in every 256th and 16th start, a prefix of
 * the covered time and running sums per category, then at most one bucket of
 * spans. Nearly every step of that misses the caches, so several edges are under
 * way at once, each a step ahead of the next.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "native.h"

enum {
    STEP = 16,          /* rows.PREFIX_STEP: spans in a block, blocks in a field */
    WAIT_STEP = 32,     /* waits.WAIT_STEP */
    MAX_EXACT = 256,    /* pyramid.MAX_EXACT */
    WALK_PER_PX = 112,  /* up to so many spans per column are walked */
    ELEMENTS_PER_PX = 96,
    FEW = 2,            /* columns.FEW: columns of more spans are stacked */
    OWN = 0xFFFD,       /* columns.OWN, a level of the category of its column */
    WAITING = 0xFFFE,   /* columns.WAITING */
    FREE = 0xFFFF,      /* columns.FREE */
    MAX_LEVELS = 4096,  /* columns.MAX_LEVELS */
    AT_ONCE = 8,        /* levels that are written at once */
    AHEAD = 6,          /* edges from one step of the look-up to the next */
    RING = 16,          /* > 2 * AHEAD, a power of two */
    MAX_THREADS = 8
};

/* model/tables.py: the wait behind a span is not recorded */
static const uint32_t NO_WAIT = 0xFFFFFFFF;

/* A row under one colouring and filter.
 * Numbers of categories are checked where the row is made: category[i] is below
 * the length of number, and number[...] below n_names. */
typedef struct {
    const int64_t *start, *end;   /* [n] */
    const int64_t *top;           /* start of every 256th span */
    const int64_t *coarse;        /* start of every 16th span */
    const int64_t *prefix;        /* covered before every 16th span */
    const void *ids;              /* id_bytes each; NULL: first_id + position */
    const void *category;         /* category_bytes each; NULL: one name for all */
    const uint16_t *number;       /* from category to 0..n_names - 1 */
    const int32_t *names;         /* [n_names], and back */
    const uint32_t *fine;         /* running sums, see pyramid.RunningSums, or NULL */
    const int64_t *base;
    const uint8_t *keep;          /* [n], what a filter keeps; NULL: all */
    const uint32_t *kept;         /* kept spans before every 16th */
    const int64_t *kept_covered;  /* what they cover */
    const int64_t *bounds;        /* [n_elements + 1] of merged runs, or NULL */
    const void *element_category; /* category_bytes each */
    const uint32_t *wait;         /* of each span id, below n_waits; NULL: none */
    const int64_t *waited;        /* waits behind what comes before every 32nd span */
    int64_t n_waits;
    int64_t n, first_id, n_names, n_elements;
    int32_t id_bytes, category_bytes;
    int32_t bucket_bits, group_bits; /* 2^bits spans, buckets */
} Row;

typedef struct {
    double *busy;
    int32_t *category;
    int64_t *count, *covered, *first;
    int64_t *waited;  /* or NULL */
    uint16_t *levels; /* [px, n_levels] from the bottom up, or NULL */
    int64_t *ticks;   /* [categories, px], what each covers is added; or NULL */
    int64_t n_levels, px;
} Columns;

/* What begins before a tick. */
typedef struct {
    int64_t n;        /* spans */
    int64_t kept;     /* those that the filter keeps */
    int64_t covered;  /* time that these cover before the tick */
} Edge;

static inline int64_t number_of(const Row *r, int64_t i)
{
    if (!r->category || r->n_names == 1)
        return 0;
    return r->number[code_at(r->category, r->category_bytes, i)];
}

static inline int64_t id_of(const Row *r, int64_t i)
{
    if (!r->ids)
        return r->first_id + i;
    return r->id_bytes == 4 ? ((const int32_t *)r->ids)[i] : ((const int64_t *)r->ids)[i];
}

/* An id is read where all else of a column is known: a step too late to wait for it. */
ALWAYS_INLINE void prefetch_id(const Row *r, int64_t i)
{
    if (r->ids)
        PREFETCH((const char *)r->ids + i * r->id_bytes);
}

static inline int is_kept(const Row *r, int64_t i) { return !r->keep || r->keep[i]; }

/* The end of column k: behind its one tick where it has no width. */
static inline int64_t stop_of(const int64_t *edges, int64_t k)
{
    return larger(edges[k + 1], edges[k] + 1);
}

/* ---- search ---------------------------------------------------------------- */

/* Where the last search ended, and how far it had to go. */
typedef struct {
    int64_t at, reach;
} Finger;

/* The last field of 256 spans that begins before tick, or -1. Ticks of one finger
 * ascend. */
static int64_t field_before(const Row *r, int64_t tick, Finger *finger)
{
    const int64_t n_fields = (r->n + STEP * STEP - 1) / (STEP * STEP);
    const int64_t *top = r->top;
    int64_t at = finger->at, reach = finger->reach;
    while (at + reach < n_fields && top[at + reach] < tick) {
        at += reach;
        reach *= 2;
    }
    for (int64_t step = reach / 2; step > 0; step /= 2) {
        const int64_t next = at + step;
        at = next < n_fields && top[next] < tick ? next : at;
    }
    /* The next tick is probably as far away as this one was. */
    const int64_t gone = at - finger->at;
    finger->reach = 1;
    while (finger->reach <= gone)
        finger->reach *= 2;
    finger->at = at;
    return at;
}

/* The last of up to 16 ticks that is before another; the first one is. */
ALWAYS_INLINE int64_t last_before(const int64_t *ticks, int64_t n, int64_t tick)
{
    int64_t at = 0;
    for (int64_t step = STEP / 2; step > 0; step /= 2)
        at = at + step < n && ticks[at + step] < tick ? at + step : at;
    return at;
}

/* The last block of 16 spans that begins before tick, in the field found. */
ALWAYS_INLINE int64_t block_before(const Row *r, int64_t tick, int64_t field)
{
    if (field < 0)
        return -1;
    const int64_t first = field * STEP, n_blocks = (r->n + STEP - 1) / STEP;
    return first + last_before(r->coarse + first, smaller(STEP, n_blocks - first), tick);
}

/* How many spans begin before tick, of which the last lies in the block found. */
ALWAYS_INLINE int64_t spans_before(const Row *r, int64_t tick, int64_t block)
{
    if (block < 0)
        return 0;
    const int64_t first = block * STEP;
    return first + 1 + last_before(r->start + first, smaller(STEP, r->n - first), tick);
}

static Edge edge_at(const Row *r, int64_t tick, int64_t block)
{
    const int64_t n = spans_before(r, tick, block);
    Edge edge = {n, n, 0};
    if (n == 0)
        return edge;
    if (!r->keep) {
        int64_t total = r->prefix[n / STEP];
        for (int64_t i = n / STEP * STEP; i < n; i++)
            total += r->end[i] - r->start[i];
        edge.covered = total;
    } else {
        int64_t total = r->kept_covered[n / STEP];
        edge.kept = r->kept[n / STEP];
        for (int64_t i = n / STEP * STEP; i < n; i++) {
            const int64_t is = r->keep[i] != 0;
            edge.kept += is;
            total += is * (r->end[i] - r->start[i]);
        }
        edge.covered = total;
    }
    if (is_kept(r, n - 1))
        edge.covered -= larger(r->end[n - 1] - tick, 0);
    return edge;
}

/* The first kept span at or behind position i; there is one. */
static int64_t next_kept(const Row *r, int64_t i, int64_t n_kept_before)
{
    if (!r->keep)
        return i;
    const int64_t n_blocks = r->n / STEP;
    int64_t low = i / STEP, high = n_blocks;
    if (low < high && r->kept[low + 1] <= n_kept_before) {
        /* None in this block: the last block with no more kept before it. */
        while (low < high) {
            const int64_t middle = low + (high - low + 1) / 2;
            if (r->kept[middle] <= n_kept_before)
                low = middle;
            else
                high = middle - 1;
        }
        i = low * STEP;
    }
    while (i < r->n - 1 && !r->keep[i])
        i++;
    return i;
}

/* ---- category -------------------------------------------------------------- */

/* One side of a column while columns are answered from left to right. */
typedef struct {
    Edge edge;
    int64_t tick;
    int64_t bucket;          /* the running sum nearest to the edge */
    int64_t moved;           /* what is covered between it and the edge; -1: no sums */
    int64_t sums[MAX_EXACT]; /* time of each category before bucket or edge */
} Side;

/* Read the running sums nearest to the edge: right but for the time between. */
static void read_sums(const Row *r, Side *side)
{
    const int64_t c = r->n_names, half = ((int64_t)1 << r->bucket_bits) / 2;
    const int64_t bucket =
        smaller((side->edge.n + half) >> r->bucket_bits, r->n >> r->bucket_bits);
    const int64_t *base = r->base + (bucket >> r->group_bits) * c;
    const uint32_t *fine = r->fine + bucket * c;
    for (int64_t k = 0; k < c; k++)
        side->sums[k] = base[k] + fine[k];
    const int64_t block = (bucket << r->bucket_bits) / STEP;
    const int64_t covered = r->keep ? r->kept_covered[block] : r->prefix[block];
    side->bucket = bucket;
    side->moved = covered > side->edge.covered ? covered - side->edge.covered
                                               : side->edge.covered - covered;
}

/* Add `sign` times the length of the spans [i, stop) to the sums of their categories. */
ALWAYS_INLINE void add_spans(const Row *r, int64_t i, int64_t stop, int64_t sign,
                             int64_t *sums, int32_t bytes)
{
    for (; i < stop; i++) {
        const int64_t part = (r->end[i] - r->start[i]) * sign;
        sums[r->number[code_at(r->category, bytes, i)]] += is_kept(r, i) ? part : 0;
    }
}

/* Add the spans between the running sums and the edge. */
static void complete_sums(const Row *r, Side *side)
{
    const int64_t n = side->edge.n, at = side->bucket << r->bucket_bits;
    if (side->moved == 0)
        return;
    const int64_t i = smaller(at, n), stop = larger(at, n), sign = at < n ? 1 : -1;
    if (r->category_bytes == 1)
        add_spans(r, i, stop, sign, side->sums, 1);
    else
        add_spans(r, i, stop, sign, side->sums, 2);
    if (n > 0 && is_kept(r, n - 1))
        side->sums[number_of(r, n - 1)] -= larger(r->end[n - 1] - side->tick, 0);
    side->moved = 0;
}

/* The category with most time between two sides, and its lead over the next. */
static int64_t heaviest(const int64_t *left, const int64_t *right, int64_t c,
                        int64_t *lead)
{
    int64_t best = 0, most = right[0] - left[0], next = INT64_MIN;
    for (int64_t k = 1; k < c; k++) {
        const int64_t share = right[k] - left[k];
        next = larger(next, smaller(share, most));
        best = share > most ? k : best;
        most = larger(share, most);
    }
    *lead = most - larger(next, -1);
    return best;
}

static int64_t name_of(const Row *r, Side *left, Side *right, int is_stacked)
{
    int64_t lead;
    if (left->moved < 0)
        read_sums(r, left);
    read_sums(r, right);
    if (!is_stacked) {
        const int64_t best = heaviest(left->sums, right->sums, r->n_names, &lead);
        if (lead > left->moved + right->moved)
            return best;
    }
    complete_sums(r, left);
    complete_sums(r, right);
    return heaviest(left->sums, right->sums, r->n_names, &lead);
}

/* ---- what columns are made of ------------------------------------------------ */

static inline int has_parts(const Columns *o, int64_t count)
{
    return o->ticks || (o->levels && count > FEW);
}

/* Levels per tick of a column. */
static inline double levels_per_tick(const Columns *o, int64_t width)
{
    return (double)o->n_levels / (double)larger(width, 1);
}

/* The level next to where a part of a column ends. */
static inline int64_t level_of(int64_t ticks, double per_tick, int64_t n)
{
    return smaller((int64_t)((double)ticks * per_tick + 0.5), n);
}

/* Fill levels from `at` to `stop`, and some behind, which are filled later; return
 * stop. Hardly a part is higher, and none of what is written at once is a branch. */
static inline int64_t fill(uint16_t *levels, int64_t at, int64_t stop, uint16_t code)
{
    do {
        for (int64_t i = 0; i < AT_ONCE; i++)
            levels[at + i] = code;
        at += AT_ONCE;
    } while (at < stop);
    return stop;
}

/* Stack what the categories [low, high) of a row cover of column k, one on the other;
 * before: to be taken off the sums, or NULL. */
static void put_parts(const Row *r, const Columns *o, int64_t k, int64_t width,
                      const int64_t *sums, const int64_t *before, int64_t low,
                      int64_t high)
{
    if (o->ticks) {
        for (int64_t c = low; c < high; c++)
            o->ticks[r->names[c] * o->px + k] += sums[c] - (before ? before[c] : 0);
        return;
    }
    const int64_t n = o->n_levels, first = k * n;
    const double per_tick = levels_per_tick(o, width);
    /* What is filled behind a column is of the next ones, which are written later; those
     * of the last ones would be of another row. */
    const int has_next = first + n + AT_ONCE <= o->px * n;
    uint16_t last[MAX_LEVELS + AT_ONCE];
    uint16_t *levels = has_next ? o->levels + first : last;
    int64_t at = 0, total = 0;
    for (int64_t c = low; c < high; c++) {
        const int64_t part = sums[c] - (before ? before[c] : 0);
        if (part == 0) /* most categories are in no span of most columns */
            continue;
        total += part;
        at = fill(levels, at, level_of(total, per_tick, n), (uint16_t)r->names[c]);
    }
    fill(levels, at, n, FREE);
    if (!has_next)
        memcpy(o->levels + first, last, (size_t)n * sizeof *last);
}

/* The same where all of a column is of one category, or of the one that it will have. */
static void put_whole(const Columns *o, int64_t k, int64_t width, int64_t covered,
                      int64_t code)
{
    if (o->ticks) {
        if (code < OWN)
            o->ticks[code * o->px + k] += covered;
        return;
    }
    const int64_t n = o->n_levels;
    const int64_t stop = level_of(covered, levels_per_tick(o, width), n);
    for (int64_t at = 0; at < n; at++)
        o->levels[k * n + at] = (uint16_t)(at < stop ? code : FREE);
}

/* Put what is waited on top of the work. */
static void put_waits(const Columns *o, const int64_t *edges)
{
    const int64_t n = o->n_levels;
    for (int64_t k = 0; k < o->px; k++) {
        if (o->count[k] <= FEW || o->waited[k] == 0)
            continue;
        const double per_tick = levels_per_tick(o, edges[k + 1] - edges[k]);
        const int64_t stop = level_of(o->covered[k] + o->waited[k], per_tick, n);
        for (int64_t at = level_of(o->covered[k], per_tick, n); at < stop; at++)
            o->levels[k * n + at] = WAITING;
    }
}

/* Write the category of columns by merged runs, which tile covered time: column
 * k lies there at [low[k], high[k]). Columns that cover nothing keep theirs. */
static void name_by_elements(const Row *r, const int64_t *edges, const int64_t *low,
                             const int64_t *high, int64_t px, int64_t *sums,
                             const Columns *o)
{
    int64_t i = 0, behind = r->n_elements;
    while (i < behind) { /* the first element that ends behind low[0] */
        const int64_t middle = i + (behind - i) / 2;
        if (r->bounds[middle + 1] > low[0])
            behind = middle;
        else
            i = middle + 1;
    }
    for (int64_t k = 0; k < px; k++) {
        const int64_t width = edges[k + 1] - edges[k];
        const int is_stacked = o->count[k] > 1 && has_parts(o, o->count[k]);
        if (high[k] <= low[k]) {
            if (is_stacked)
                put_whole(o, k, width, 0, FREE);
            continue;
        }
        while (i < r->n_elements && r->bounds[i + 1] <= low[k])
            i++;
        int64_t best = MAX_EXACT * MAX_EXACT, most = 0;
        int64_t lowest = best, highest = 0;
        for (int pass = 0; pass < 2; pass++) {
            if (pass && is_stacked)
                put_parts(r, o, k, width, sums, NULL, lowest, highest + 1);
            for (int64_t j = i; j < r->n_elements && r->bounds[j] < high[k]; j++) {
                const int64_t name =
                    r->number[code_at(r->element_category, r->category_bytes, j)];
                if (pass) {
                    sums[name] = 0;
                    continue;
                }
                sums[name] += smaller(r->bounds[j + 1], high[k]) -
                              larger(r->bounds[j], low[k]);
                if (sums[name] > most || (sums[name] == most && name < best)) {
                    most = sums[name];
                    best = name;
                }
                lowest = smaller(lowest, name);
                highest = larger(highest, name);
            }
        }
        if (best < r->n_names)
            o->category[k] = r->names[best];
    }
}

/* ---- two ways to answer ----------------------------------------------------- */

static void put(const Row *r, const Columns *o, int64_t k, int64_t width,
                int64_t covered, int64_t count, int64_t first, int64_t number)
{
    o->covered[k] = width ? covered : 0;
    o->busy[k] = (double)covered / (double)larger(width, 1);
    o->count[k] = count;
    o->first[k] = count ? id_of(r, first) : -1;
    o->category[k] = count ? r->names[number] : -1;
}

/* The category of the spans [i, stop) with the greatest sum, of equals the smallest;
 * there is one above zero. The sums become zeros again. */
ALWAYS_INLINE int64_t take_heaviest(const void *category, const uint16_t *number,
                                    int32_t bytes, int64_t i, int64_t stop,
                                    int64_t n_names, int64_t *sums)
{
    int64_t best = 0;
    if (stop - i > n_names / 2) {
        int64_t most = sums[0];
        for (int64_t k = 1; k < n_names; k++) {
            best = sums[k] > most ? k : best;
            most = larger(sums[k], most);
        }
        memset(sums, 0, (size_t)n_names * sizeof *sums);
        return best;
    }
    best = number[code_at(category, bytes, i)];
    for (int64_t s = i + 1; s < stop; s++) {
        const int64_t name = number[code_at(category, bytes, s)];
        if (sums[name] > sums[best] || (sums[name] == sums[best] && name < best))
            best = name;
    }
    for (int64_t s = i; s < stop; s++)
        sums[number[code_at(category, bytes, s)]] = 0;
    return best;
}

/* Stack the spans [i, stop), whose sums are known. */
static void put_walked(const Row *r, const Columns *o, int64_t k, int64_t width,
                       int64_t i, int64_t stop, const int64_t *sums)
{
    int64_t low = 0, high = r->n_names;
    if (stop - i < r->n_names) {
        low = r->n_names;
        high = 0;
        for (int64_t s = i; s < stop; s++) {
            const int64_t name = number_of(r, s);
            low = smaller(low, name);
            high = larger(high, name + 1);
        }
    }
    put_parts(r, o, k, width, sums, NULL, low, high);
}

/* Answer by one pass over the spans from position i on; sums: n_names zeros; begun:
 * px, how many spans begin before the end of each column, written. The last two
 * arguments are constants, so that each combination is compiled alone. */
ALWAYS_INLINE void walk_as(const Row *r, const int64_t *edges, int64_t px, int64_t i,
                           int64_t *sums, int64_t *begun, const Columns *o,
                           int32_t bytes, int filtered)
{
    const int64_t *start = r->start, *end = r->end, n = r->n, n_names = r->n_names;
    const void *category = r->category;
    const uint16_t *number = r->number;
    const uint8_t *keep = r->keep;
    for (int64_t k = 0; k < px; k++) {
        const int64_t a = edges[k], b = stop_of(edges, k);
        int64_t j = i, total = 0, count = 0, first = -1;
        prefetch_id(r, i);
        for (; j < n && start[j] < b; j++) {
            /* No branch: what a filter keeps is hard to foretell. */
            const int64_t kept = filtered ? keep[j] != 0 : 1;
            const int64_t part = (smaller(end[j], b) - larger(start[j], a)) & -kept;
            if (bytes)
                sums[number[code_at(category, bytes, j)]] += part;
            total += part;
            first = first < 0 && kept ? j : first;
            count += kept;
        }
        const int64_t width = edges[k + 1] - a;
        int64_t best = 0;
        if (has_parts(o, count)) {
            if (bytes)
                put_walked(r, o, k, width, i, j, sums);
            else
                put_whole(o, k, width, total, count ? r->names[0] : FREE);
        }
        if (bytes && total)
            best = take_heaviest(category, number, bytes, i, j, n_names, sums);
        else if (bytes && count)
            best = number[code_at(category, bytes, first)];
        put(r, o, k, width, total, count, first, best);
        begun[k] = j;
        /* The last span goes on in the next column if it ends behind the edge. */
        if (edges[k + 1] > a && j > i)
            i = end[j - 1] > b ? j - 1 : j;
    }
}

static void walk(const Row *r, const int64_t *edges, int64_t px, int64_t i,
                 int64_t *sums, int64_t *begun, const Columns *o)
{
    const int32_t bytes = r->category && r->n_names > 1 ? r->category_bytes : 0;
    if (r->keep) {
        if (bytes == 0)
            walk_as(r, edges, px, i, sums, begun, o, 0, 1);
        else if (bytes == 1)
            walk_as(r, edges, px, i, sums, begun, o, 1, 1);
        else
            walk_as(r, edges, px, i, sums, begun, o, 2, 1);
    } else if (bytes == 0) {
        walk_as(r, edges, px, i, sums, begun, o, 0, 0);
    } else if (bytes == 1) {
        walk_as(r, edges, px, i, sums, begun, o, 1, 0);
    } else {
        walk_as(r, edges, px, i, sums, begun, o, 2, 0);
    }
}

static void answer(const Row *r, const Columns *o, int64_t k, int64_t width,
                   Side *left, Side *right)
{
    const int64_t n = left->edge.n;
    const int open = n > 0 && r->end[n - 1] > left->tick && is_kept(r, n - 1);
    const int64_t count = right->edge.kept - left->edge.kept + open;
    const int64_t covered = right->edge.covered - left->edge.covered;
    int64_t first = 0, best = 0;
    right->moved = -1;
    if (count)
        first = open ? n - 1 : next_kept(r, n, left->edge.kept);
    const int is_stacked = has_parts(o, count);
    if (count > 1 && covered && r->fine)
        best = name_of(r, left, right, is_stacked);
    else if (count)
        best = number_of(r, first);
    put(r, o, k, width, covered, count, first, best);
    if (!is_stacked)
        return;
    if (count > 1 && covered && r->fine)
        put_parts(r, o, k, width, right->sums, left->sums, 0, r->n_names);
    else
        put_whole(o, k, width, covered,
                  r->n_names > 1 && count > 1 ? OWN : count ? r->names[best] : FREE);
}

ALWAYS_INLINE void prefetch_block(const Row *r, int64_t block)
{
    const int64_t at = block * STEP;
    PREFETCH(r->start + at);
    PREFETCH(r->start + at + STEP / 2);
    PREFETCH(r->start + at + STEP - 1); /* another line where the first is cut */
    PREFETCH(r->end + at);
    PREFETCH(r->end + at + STEP / 2);
    PREFETCH(r->end + at + STEP - 1);
    prefetch_id(r, at + STEP / 2);
    if (r->keep) {
        PREFETCH(r->keep + at);
        PREFETCH(r->kept + block);
        PREFETCH(r->kept_covered + block);
    } else {
        PREFETCH(r->prefix + block);
    }
    if (r->fine) {
        const int64_t bucket = (at + STEP) >> r->bucket_bits;
        PREFETCH(r->fine + bucket * r->n_names);
        PREFETCH((const char *)r->category + at * r->category_bytes);
    }
}

/* Answer by looking up the edges; low, high: px covered times each, written; begun as
 * in walk_as. */
static void look_up(const Row *r, const int64_t *edges, int64_t px, int64_t *low,
                    int64_t *high, int64_t *begun, const Columns *o)
{
    Finger finger = {-1, 1};
    Side sides[2], *left = &sides[0], *right = &sides[1];
    int64_t found[RING]; /* the field, then the block of the edges under way */
    left->tick = edges[0];
    left->edge = edge_at(
        r, edges[0], block_before(r, edges[0], field_before(r, edges[0], &finger)));
    left->moved = -1;
    for (int64_t step = 0; step < px + 2 * AHEAD; step++) {
        int64_t k = step;
        if (k < px) {
            const int64_t field = field_before(r, stop_of(edges, k), &finger);
            found[k % RING] = field;
            PREFETCH(r->coarse + larger(field, 0) * STEP);
            PREFETCH(r->coarse + larger(field, 0) * STEP + STEP / 2);
        }
        k -= AHEAD;
        if (k >= 0 && k < px) {
            const int64_t block = block_before(r, stop_of(edges, k), found[k % RING]);
            found[k % RING] = block;
            prefetch_block(r, larger(block, 0));
        }
        k -= AHEAD;
        if (k < 0 || k >= px)
            continue;
        const int64_t width = edges[k + 1] - edges[k];
        right->tick = stop_of(edges, k);
        right->edge = edge_at(r, right->tick, found[k % RING]);
        answer(r, o, k, width, left, right);
        low[k] = left->edge.covered;
        high[k] = right->edge.covered;
        begun[k] = right->edge.n;
        if (width) { /* the next column begins where this one ends */
            Side *other = left;
            left = right;
            right = other;
        }
    }
}

/* ---- waits ------------------------------------------------------------------ */

/* How long the thread waited behind span i; never beyond the next span of the row. */
static inline int64_t wait_behind(const Row *r, int64_t i)
{
    const int64_t id = id_of(r, i);
    if (!is_kept(r, i) || id < 0 || id >= r->n_waits || r->wait[id] == NO_WAIT)
        return 0;
    const int64_t wait = r->wait[id];
    return i + 1 < r->n ? smaller(wait, larger(r->start[i + 1] - r->end[i], 0)) : wait;
}

/* Waits behind the first spans of a row, summed up to `at`. */
typedef struct {
    int64_t at, sum;
} WaitSum;

/* The time waited before a tick, before which n spans begin. */
static int64_t waited_before(const Row *r, int64_t tick, int64_t n, WaitSum *known)
{
    if (n == 0)
        return 0;
    const int64_t last = n - 1;
    if (last < known->at || last - known->at > WAIT_STEP) {
        known->at = last / WAIT_STEP * WAIT_STEP;
        known->sum = r->waited[last / WAIT_STEP];
    }
    for (; known->at < last; known->at++)
        known->sum += wait_behind(r, known->at);
    return known->sum + smaller(wait_behind(r, last), larger(tick - r->end[last], 0));
}

/* Write how long was waited in each column; n: spans that begin before edges[0]. */
static void query_waits(const Row *r, const int64_t *edges, int64_t px, int64_t n,
                        const int64_t *begun, int64_t *waited)
{
    WaitSum known = {0, 0};
    int64_t before = waited_before(r, edges[0], n, &known);
    for (int64_t k = 0; k < px; k++) {
        const int64_t after = waited_before(r, stop_of(edges, k), begun[k], &known);
        waited[k] = after - before;
        if (edges[k + 1] > edges[k])
            before = after;
    }
}

/* Write the waits behind what comes before every 32nd span, from the block `first` on,
 * of which that is known; waited: n / 64 + 1. */
EXPORT void ggscope_columns_waits(const Row *r, int64_t first, int64_t *waited)
{
    int64_t sum = waited[first];
    for (int64_t i = first * WAIT_STEP; i < r->n / WAIT_STEP * WAIT_STEP; i++) {
        sum += wait_behind(r, i);
        if ((i + 1) % WAIT_STEP == 0)
            waited[(i + 1) / WAIT_STEP] = sum;
    }
}

/* ---- a row ------------------------------------------------------------------- */

/* Write the columns of a row; 0 where it has so many categories that those of columns
 * with several spans are left open. n_before: spans that begin before the first one.
 * scratch: 3 * px numbers, and n_names zeros, given back as zeros. The zeros come last:
 * rows have different numbers of names, and the next one needs zeros as well. */
static int32_t query_spans(const Row *r, const int64_t *edges, int64_t px,
                           int64_t *scratch, const Columns *o, int64_t *n_before)
{
    Finger finger = {-1, 1};
    int64_t *low = scratch, *high = low + px, *begun = high + px, *sums = begun + px;
    const int64_t last = stop_of(edges, px - 1);
    int64_t block = block_before(r, edges[0], field_before(r, edges[0], &finger));
    int64_t lowest = *n_before = spans_before(r, edges[0], block);
    block = block_before(r, last, field_before(r, last, &finger));
    const int64_t stop = spans_before(r, last, block);
    if (lowest > 0 && r->end[lowest - 1] > edges[0])
        lowest--;
    if (stop - lowest <= WALK_PER_PX * px) {
        walk(r, edges, px, lowest, sums, begun, o);
        return 1;
    }
    const int is_named = r->n_names == 1 || r->fine;
    /* Rows of few categories without running sums are short. */
    const int64_t most = r->n_names <= MAX_EXACT ? r->n : ELEMENTS_PER_PX * px;
    if (!is_named && !r->bounds && stop - lowest <= most) {
        walk(r, edges, px, lowest, sums, begun, o);
        return 1;
    }
    look_up(r, edges, px, low, high, begun, o);
    if (is_named)
        return 1;
    if (!r->bounds || r->n_elements > ELEMENTS_PER_PX * px)
        return 0;
    name_by_elements(r, edges, low, high, px, sums, o);
    return 1;
}

static int32_t query_row(const Row *r, const int64_t *edges, int64_t px,
                         int64_t *scratch, const Columns *o)
{
    int64_t n_before;
    const int32_t is_answered = query_spans(r, edges, px, scratch, o, &n_before);
    if (r->wait && o->waited)
        query_waits(r, edges, px, n_before, scratch + 2 * px, o->waited);
    if (r->wait && o->waited && o->levels)
        put_waits(o, edges);
    return is_answered;
}

/* ---- many rows -------------------------------------------------------------- */

typedef struct {
    const Row *rows;
    const int64_t *edges;
    int64_t n_rows, px, scratch_size;
    const int64_t *level_at;
    Columns out;
    int32_t *answered;
    int64_t *scratch;
    atomic_int_fast64_t next_row, next_thread;
} Job;

static void *work(void *argument)
{
    Job *job = argument;
    const int64_t px = job->px;
    int64_t *scratch =
        job->scratch + atomic_fetch_add(&job->next_thread, 1) * job->scratch_size;
    for (;;) {
        const int64_t i = atomic_fetch_add(&job->next_row, 1);
        if (i >= job->n_rows)
            return NULL;
        const int64_t n_levels = job->level_at[i + 1] - job->level_at[i];
        const Columns out = {
            job->out.busy + i * px,    job->out.category + i * px,
            job->out.count + i * px,   job->out.covered + i * px,
            job->out.first + i * px,
            job->out.waited ? job->out.waited + i * px : NULL,
            n_levels ? job->out.levels + job->level_at[i] * px : NULL,
            job->out.ticks, n_levels, px,
        };
        job->answered[i] = query_row(&job->rows[i], job->edges, px, scratch, &out);
    }
}

/* Write n_rows pictures of px columns each.
 *
 * edges: px + 1; busy … waited: n_rows * px, the last one only of rows with waits;
 * level_at: n_rows + 1, where the levels of each row begin in levels, px each;
 * ticks: those of each category in all rows are added, in one thread, [categories, px],
 * or NULL: a row that is not answered adds none;
 * answered: n_rows, 0 where the caller must name the columns with several spans
 * himself; scratch: n_threads * scratch_size zeros, where scratch_size is at least 3 *
 * px + the most names of a row. */
EXPORT void ggscope_columns(const Row *rows, int64_t n_rows, const int64_t *edges,
                            int64_t px, double *busy, int32_t *category, int64_t *count,
                            int64_t *covered, int64_t *first, int64_t *waited,
                            const int64_t *level_at, uint16_t *levels, int64_t *ticks,
                            int32_t *answered, int64_t *scratch, int64_t scratch_size,
                            int64_t n_threads)
{
    Job job = {
        .rows = rows, .edges = edges, .n_rows = n_rows, .px = px,
        .scratch_size = scratch_size, .level_at = level_at,
        .out = {busy, category, count, covered, first, waited, levels, ticks, 0, px},
        .answered = answered, .scratch = scratch,
    };
    atomic_init(&job.next_row, 0);
    atomic_init(&job.next_thread, 0);
    pthread_t helpers[MAX_THREADS];
    int64_t n_helpers = 0;
    while (!ticks && n_helpers < smaller(n_threads, MAX_THREADS) - 1 &&
           pthread_create(&helpers[n_helpers], NULL, work, &job) == 0)
        n_helpers++;
    work(&job);
    for (int64_t i = 0; i < n_helpers; i++)
        pthread_join(helpers[i], NULL);
}
