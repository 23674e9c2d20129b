/* Codes of spans, one or two bytes each: which occur, how often, where, and what they
 * stand for. They are read as unsigned numbers; the caller knows what negative ones
 * come out as.
 *
 * Counting and then putting every id where it belongs is a stable sort in two passes.
 * Several threads may place parts of the spans at once, each with cursors of its own.
 */
#include "native.h"

/* Mark which of 2^(8 * bytes) codes occur among n. */
EXPORT void ggscope_codes_seen(const void *codes, int32_t bytes, int64_t n,
                               uint8_t *seen)
{
    for (int64_t i = 0; i < n; i++)
        seen[code_at(codes, bytes, i)] = 1;
}

/* Whether a number of 1, 2 or 4 bytes is not negative; all are where there is no
 * gate. */
static inline int is_open(const void *gate, int32_t bytes, int64_t i)
{
    if (!gate)
        return 1;
    if (bytes == 1)
        return ((const int8_t *)gate)[i] >= 0;
    return (bytes == 2 ? ((const int16_t *)gate)[i] : ((const int32_t *)gate)[i]) >= 0;
}

/* Add how often each code occurs where the gate is open; counts: 2^(8 * bytes). */
EXPORT void ggscope_codes_count(const void *codes, int32_t bytes, const void *gate,
                                int32_t gate_bytes, int64_t n, int64_t *counts)
{
    for (int64_t i = 0; i < n; i++)
        counts[code_at(codes, bytes, i)] += is_open(gate, gate_bytes, i);
}

/* Put span first + i at placed[cursor[code]] where the gate is open, and move the
 * cursor on; no further than to limit[code]. */
EXPORT void ggscope_codes_place(const void *codes, int32_t bytes, const void *gate,
                                int32_t gate_bytes, int64_t n, int64_t first,
                                int64_t *cursor, const int64_t *limit, int32_t *placed)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = code_at(codes, bytes, i);
        if (is_open(gate, gate_bytes, i) && cursor[code] < limit[code])
            placed[cursor[code]++] = (int32_t)(first + i);
    }
}

/* Write what each code stands for; meaning: 2^(8 * bytes). */
EXPORT void ggscope_codes_map(const void *codes, int32_t bytes, int64_t n,
                              const uint16_t *meaning, void *out, int32_t out_bytes)
{
    for (int64_t i = 0; i < n; i++) {
        const uint16_t value = meaning[code_at(codes, bytes, i)];
        if (out_bytes == 1)
            ((uint8_t *)out)[i] = (uint8_t)value;
        else
            ((uint16_t *)out)[i] = value;
    }
}

/* Put span i (ids[i], or first + i where there are no ids) at placed[cursor[code]],
 * and move the cursor on. Places beyond n_placed are left alone. */
EXPORT void ggscope_codes_arrange(const uint16_t *code, const int32_t *ids,
                                  int64_t first, int64_t n, int64_t *cursor,
                                  int32_t *placed, int64_t n_placed)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = cursor[code[i]]++;
        if (at >= 0 && at < n_placed)
            placed[at] = ids ? ids[i] : (int32_t)(first + i);
    }
}
