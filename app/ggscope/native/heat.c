/* Cells of a heatmap, summed up from its tables of all rows: a group of rows is the
 * difference of two of their rows, read once from left to right, and only where cells
 * are. numpy would make tables of all groups first, of several times the size.
 */
#include "native.h"

/* The tables hold sums over the rows before, so that rows [rows[g], rows[g + 1]) have
 * the difference of two of their rows. Place j lies at the beginning of piece[j], or,
 * where there are edges, inside[j] bytes behind it; then a number of a piece counts as
 * often as the piece has bytes. Pieces ascend; overflow wraps, as in numpy.
 * Written is what lies between neighbouring places, or else what lies before each.
 * `sums` has room for a number per piece and one more: the sums of one group before
 * each piece, so that no place waits for the one before it. */
#define SUMS(TYPE)                                                                     \
    static void sums_##TYPE(const TYPE *table, int64_t width, const int64_t *rows,     \
                            int64_t n_groups, const int64_t *edges,                    \
                            const int64_t *piece, const int64_t *inside, int64_t n,    \
                            int32_t cells, uint64_t *sums, int64_t *out)               \
    {                                                                                  \
        int64_t first = cells ? piece[0] : 0, stop = piece[n - 1];                     \
        for (int64_t g = 0; g < n_groups; g++) {                                       \
            const TYPE *low = table + rows[g] * width;                                 \
            const TYPE *high = table + rows[g + 1] * width;                            \
            uint64_t *to = (uint64_t *)out + g * (cells ? n - 1 : n);                  \
            uint64_t sum = 0, last = 0;                                                \
            for (int64_t p = first; p < stop; p++) {                                   \
                sums[p] = sum;                                                         \
                sum += (uint64_t)((int64_t)high[p] - low[p])                           \
                       * (uint64_t)(edges ? edges[p + 1] - edges[p] : 1);              \
            }                                                                          \
            sums[stop] = sum;                                                          \
            for (int64_t j = 0; j < n; j++) {                                          \
                int64_t p = piece[j];                                                  \
                uint64_t now = sums[p];                                                \
                if (edges)                                                             \
                    now += (uint64_t)((int64_t)high[p] - low[p])                       \
                           * (uint64_t)inside[j];                                      \
                if (!cells)                                                            \
                    to[j] = now;                                                       \
                else if (j)                                                            \
                    to[j - 1] = now - last;                                            \
                last = now;                                                            \
            }                                                                          \
        }                                                                              \
    }

SUMS(int16_t)
SUMS(int32_t)
SUMS(int64_t)

EXPORT void ggscope_heat_sums(const void *table, int32_t bytes_each, int64_t width,
                              const int64_t *rows, int64_t n_groups,
                              const int64_t *edges, const int64_t *piece,
                              const int64_t *inside, int64_t n, int32_t cells,
                              uint64_t *sums, int64_t *out)
{
    if (!n)
        return;
    if (bytes_each == 2)
        sums_int16_t(table, width, rows, n_groups, edges, piece, inside, n, cells, sums,
                     out);
    else if (bytes_each == 4)
        sums_int32_t(table, width, rows, n_groups, edges, piece, inside, n, cells, sums,
                     out);
    else
        sums_int64_t(table, width, rows, n_groups, edges, piece, inside, n, cells, sums,
                     out);
}

/* Adds bytes that are spread evenly over their pieces, of which there are k. before[at]
 * of a group's k + 1 are those of all pieces before a place. Of the piece that it lies
 * in, it has share of small parts: exactly, as analysis.heat.heatmap.scaled says. */
EXPORT void ggscope_heat_spread(const int64_t *amount, const int64_t *before, int64_t k,
                                int64_t n_groups, const int64_t *at,
                                const int64_t *share, const int64_t *small, int64_t n,
                                int32_t cells, int64_t *out)
{
    for (int64_t g = 0; g < n_groups; g++) {
        int64_t last = 0, *to = out + g * (cells ? n - 1 : n);
        for (int64_t j = 0; j < n; j++) {
            int64_t now = before[g * (k + 1) + at[j]];
            if (share[j]) {
                int64_t all = amount[g * k + at[j]];
                now += all / small[j] * share[j] + all % small[j] * share[j] / small[j];
            }
            if (!cells)
                to[j] += now;
            else if (j)
                to[j - 1] += now - last;
            last = now;
        }
    }
}
