/* Stable counting sort of span ids by a 16-bit code.
 *
 * One pass counts, one puts every id where it belongs. Several threads may place
 * parts of the spans at once, each with cursors of its own. The numpy twin is a
 * stable argsort (analysis/partition.py); tests hold the two together.
 */

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define VERSION 1
#define N_CODES 65536

EXPORT int32_t ggscope_order_version(void)
{
    return VERSION;
}

/* Add how often each code occurs to counts[N_CODES]. */
EXPORT void ggscope_order_count(const uint16_t *code, int64_t n, int64_t *counts)
{
    for (int64_t i = 0; i < n; i++)
        counts[code[i]]++;
}

/* Put span i (ids[i], or first + i where there are no ids) at placed[cursor[code]],
 * and move the cursor on. Places beyond n_placed are left alone. */
EXPORT void ggscope_order_place(const uint16_t *code, const int32_t *ids, int64_t first,
                                int64_t n, int64_t *cursor, int32_t *placed,
                                int64_t n_placed)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = cursor[code[i]]++;
        if (at >= 0 && at < n_placed)
            placed[at] = ids ? ids[i] : (int32_t)(first + i);
    }
}
