/* The exact column picture of a row, span by span: the compiled twin of
 * RowColumns._query_wide for views of moderately many spans.
 *
 * Spans are sorted by start and do not overlap. Edges ascend strictly. For each
 * column [edges[k], edges[k + 1]) the function writes
 *   covered  ticks that spans cover,
 *   count    spans that touch it (zero-length ones at a tick inside count),
 *   first    position of the first of them, or -1,
 *   name     category that covers most of it (of equals the smallest; where
 *            nothing is covered that of the first span), or -1.
 */
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Bumped whenever the arguments change, so that a stale build is not used. */
EXPORT int32_t ggscope_columns_version(void) { return 1; }

/* start, end: n spans; category: of each of them, below n_categories;
 * sums: n_categories zeros, given back as zeros. */
EXPORT void ggscope_columns(const int64_t *start, const int64_t *end, int64_t n,
                            const uint16_t *category, const int64_t *edges,
                            int64_t px, int64_t *sums, int64_t *covered,
                            int64_t *count, int64_t *first, int32_t *name)
{
    int64_t i = 0;
    for (int64_t k = 0; k < px; k++) {
        const int64_t a = edges[k], b = edges[k + 1];
        int64_t j = i, total = 0;
        while (j < n && start[j] < b) {
            const int64_t from = start[j] > a ? start[j] : a;
            const int64_t to = end[j] < b ? end[j] : b;
            sums[category[j]] += to - from;
            total += to - from;
            j++;
        }
        covered[k] = total;
        count[k] = j - i;
        if (j == i) {
            first[k] = -1;
            name[k] = -1;
            continue;
        }
        first[k] = i;
        uint16_t best = category[i];
        for (int64_t s = i; s < j; s++) {
            const uint16_t c = category[s];
            if (sums[c] > sums[best] || (sums[c] == sums[best] && total && c < best))
                best = c;
        }
        name[k] = best;
        for (int64_t s = i; s < j; s++)
            sums[category[s]] = 0;
        /* The last span goes on in the next column if it ends behind the edge. */
        i = end[j - 1] > b ? j - 1 : j;
    }
}
