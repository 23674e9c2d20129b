/* How often a cache of some size would miss.
 *
 * All functions take a part of a sequence of reads and keep their state in arrays of
 * the caller, so that a long sequence can be worked through in pieces and given up
 * between two of them. Units are 0..n_units-1; others are skipped.
 */
#include "native.h"

/* -- LRU stack distances ------------------------------------------------------ */

/* A Fenwick tree over the last reads of all units in the order of time: the sum of
 * sizes from one of them on is the stack distance of the next read of that unit. Places
 * are numbered anew when they run out, so the tree stays small, whatever the length of
 * the sequence. */
typedef struct {
    int64_t *tree;   /* [places + 1], 1-based */
    int64_t *slot;   /* [n_units] place of a unit's last read, -1 never read */
    int64_t *owner;  /* [places] unit whose last read has that place, -1 none */
    int64_t places, used;
} Recent;

static void add(const Recent *r, int64_t place, int64_t amount)
{
    for (int64_t i = place + 1; i <= r->places; i += i & -i)
        r->tree[i] += amount;
}

static int64_t sum_before(const Recent *r, int64_t place)
{
    int64_t sum = 0;
    for (int64_t i = place; i > 0; i -= i & -i)
        sum += r->tree[i];
    return sum;
}

static void renumber(Recent *r, const int64_t *size)
{
    int64_t kept = 0;
    for (int64_t place = 0; place < r->places; place++) {
        const int64_t unit = r->owner[place];
        if (unit < 0)
            continue;
        r->owner[place] = -1;
        r->owner[kept] = unit;
        r->slot[unit] = kept++;
    }
    r->used = kept;
    for (int64_t i = 1; i <= r->places; i++)
        r->tree[i] = i <= kept ? size[r->owner[i - 1]] : 0;
    for (int64_t i = 1; i <= r->places; i++) { /* linear build of the tree */
        const int64_t up = i + (i & -i);
        if (up <= r->places)
            r->tree[up] += r->tree[i];
    }
}

/* Write the stack distance of each read: bytes of all units read since the unit's
 * last read, its own included; -1 for a first read. `state` holds {used, bytes of all
 * units read so far}. `places` must be greater than n_units. */
EXPORT void ggscope_reuse_distances(const int32_t *unit, int64_t n, const int64_t *size,
                                    int64_t n_units, int64_t places, int64_t *state,
                                    int64_t *tree, int64_t *slot, int64_t *owner,
                                    int64_t *distance)
{
    Recent r = {tree, slot, owner, places, state[0]};
    int64_t all = state[1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t u = unit[i];
        distance[i] = -1;
        if (u < 0 || u >= n_units)
            continue;
        if (r.used == places)
            renumber(&r, size);
        const int64_t last = slot[u];
        if (last >= 0) {
            distance[i] = all - sum_before(&r, last);
            add(&r, last, -size[u]);
            owner[last] = -1;
        } else {
            all += size[u];
        }
        add(&r, r.used, size[u]);
        slot[u] = r.used;
        owner[r.used++] = u;
    }
    state[0] = r.used;
    state[1] = all;
}

/* -- the next read of the same unit ------------------------------------------- */

/* Write for each read where the same unit is read next, n where it never is. `last`
 * [n_units] is scratch. */
EXPORT void ggscope_reuse_next(const int32_t *unit, int64_t n, int64_t n_units,
                               int64_t *last, int64_t *next)
{
    for (int64_t u = 0; u < n_units; u++)
        last[u] = n;
    for (int64_t i = n - 1; i >= 0; i--) {
        const int64_t u = unit[i];
        next[i] = n;
        if (u < 0 || u >= n_units)
            continue;
        next[i] = last[u];
        last[u] = i;
    }
}

/* -- Belady's optimum --------------------------------------------------------- */

/* A tournament over the units by when they are read next, the latest on top; what has
 * no byte in the cache counts as -1. leaves is a power of two. */
static void set_key(int64_t *tree, int64_t leaves, int64_t unit, int64_t key)
{
    int64_t i = leaves + unit;
    tree[i] = key;
    for (i >>= 1; i >= 1; i >>= 1) {
        const int64_t a = tree[2 * i], b = tree[2 * i + 1];
        const int64_t top = a > b ? a : b;
        if (tree[i] == top)
            break;
        tree[i] = top;
    }
}

static int64_t latest(const int64_t *tree, int64_t leaves)
{
    int64_t i = 1;
    while (i < leaves)
        i = tree[2 * i] >= tree[2 * i + 1] ? 2 * i : 2 * i + 1;
    return i - leaves;
}

/* Work through reads [first, stop). Byte by byte, what is read latest leaves first,
 * what was just read too. `state` holds {bytes in the cache, bytes read from disk,
 * reads that were not served whole}. tree [2 * leaves] begins as -1. */
EXPORT void ggscope_reuse_optimum(const int32_t *unit, const int64_t *next,
                                  int64_t first, int64_t stop, const int64_t *size,
                                  int64_t n_units, int64_t capacity, int64_t leaves,
                                  int64_t *tree, int64_t *resident, int64_t *state)
{
    int64_t held = state[0], from_disk = state[1], misses = state[2];
    for (int64_t i = first; i < stop; i++) {
        const int64_t u = unit[i];
        if (u < 0 || u >= n_units || size[u] <= 0)
            continue;
        const int64_t lacking = size[u] - resident[u];
        from_disk += lacking;
        misses += lacking > 0;
        held += lacking;
        resident[u] = size[u];
        set_key(tree, leaves, u, next[i]);
        while (held > capacity) {
            const int64_t v = latest(tree, leaves);
            const int64_t over = held - capacity;
            const int64_t out = resident[v] < over ? resident[v] : over;
            resident[v] -= out;
            held -= out;
            if (resident[v] == 0)
                set_key(tree, leaves, v, -1);
        }
    }
    state[0] = held;
    state[1] = from_disk;
    state[2] = misses;
}

/* -- LRU with read-ahead -------------------------------------------------------- */

/* A ring of the units in the cache, most recent first; n_units is its hub. */
static void take_out(int64_t *before, int64_t *after, int64_t u)
{
    before[after[u]] = before[u];
    after[before[u]] = after[u];
    after[u] = -1;
}

static void put_first(int64_t *before, int64_t *after, int64_t hub, int64_t u)
{
    after[u] = after[hub];
    before[u] = hub;
    before[after[u]] = u;
    after[hub] = u;
}

/* Work through n reads. After a miss the k units that follow in the file (`follow`,
 * -1 none) are read as well, and count as read just before. after[u] is -1 for what is
 * not in the cache; the hub's entries point at itself at first. `state` holds {bytes in
 * the cache, bytes read from disk, misses, bytes read ahead}. */
EXPORT void ggscope_reuse_ahead(const int32_t *unit, int64_t n, const int64_t *size,
                                int64_t n_units, const int64_t *follow, int64_t k,
                                int64_t capacity, int64_t *before, int64_t *after,
                                int64_t *ahead, int64_t *state)
{
    const int64_t hub = n_units;
    int64_t held = state[0], from_disk = state[1], misses = state[2], early = state[3];
    for (int64_t i = 0; i < n; i++) {
        const int64_t u = unit[i];
        if (u < 0 || u >= n_units)
            continue;
        if (after[u] >= 0) {
            take_out(before, after, u);
            put_first(before, after, hub, u);
            continue;
        }
        misses++;
        int64_t m = 0;
        for (int64_t v = follow[u]; m < k && v >= 0 && v < n_units && v != u;
             v = follow[v])
            ahead[m++] = v;
        while (m-- > 0) { /* the nearest one is the most recent */
            const int64_t v = ahead[m];
            if (after[v] >= 0) {
                take_out(before, after, v);
            } else {
                held += size[v];
                from_disk += size[v];
                early += size[v];
            }
            put_first(before, after, hub, v);
        }
        held += size[u];
        from_disk += size[u];
        put_first(before, after, hub, u);
        while (held > capacity) {
            const int64_t v = before[hub];
            take_out(before, after, v);
            held -= size[v];
        }
    }
    state[0] = held;
    state[1] = from_disk;
    state[2] = misses;
    state[3] = early;
}
