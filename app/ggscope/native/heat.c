/* Cells of a heatmap. numpy would gather each number twice into tables of their own;
 * here a row is read once from left to right.
 */
#include "native.h"

/* The bytes before edge j of a row are before[piece[j]] + covers[piece[j]] * inside[j];
 * a cell is the difference of two edges. Overflow wraps, as in numpy. */
EXPORT void ggscope_heat_cells(const int64_t *before, int64_t before_stride,
                               const int64_t *covers, int64_t covers_stride,
                               int64_t n_rows, const int64_t *piece,
                               const int64_t *inside, int64_t n_edges, int64_t *out)
{
    for (int64_t row = 0; row < n_rows && n_edges > 0; row++) {
        const uint64_t *b = (const uint64_t *)(before + row * before_stride);
        const uint64_t *c = (const uint64_t *)(covers + row * covers_stride);
        uint64_t *to = (uint64_t *)(out + row * (n_edges - 1));
        uint64_t last = b[piece[0]] + c[piece[0]] * (uint64_t)inside[0];
        for (int64_t j = 1; j < n_edges; j++) {
            int64_t at = piece[j];
            uint64_t now = b[at] + c[at] * (uint64_t)inside[j];
            to[j - 1] = now - last;
            last = now;
        }
    }
}

