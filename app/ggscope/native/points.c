/* Points of a picture in three dimensions: projected, and the nearest kept per pixel. */
#include <string.h>
#include "native.h"

#define AT_ONCE 64

/* Written so that no library is called: a million points are projected per picture. */
ALWAYS_INLINE int32_t floor_of(float value)
{
    const int32_t whole = (int32_t)value;
    return whole - ((float)whole > value);
}

ALWAYS_INLINE int32_t low_of(float value)
{
    const int32_t whole = floor_of(value);
    return whole > 0 ? whole : 0;
}

ALWAYS_INLINE int32_t high_of(float value, int32_t size)
{
    const int32_t whole = floor_of(value);
    return whole < size - 1 ? whole : size - 1;
}

/* A distance above a number. Distances in memory are ordered as they are: none is below
 * 0, and a negative 0 becomes one. */
ALWAYS_INLINE uint64_t cell_of(float far, int64_t number)
{
    const float distance = far + 0.0f;
    uint32_t bits;
    memcpy(&bits, &distance, sizeof bits);
    return (uint64_t)bits << 32 | (uint32_t)number;
}

ALWAYS_INLINE void draw_disc(uint64_t *cells, int32_t columns, int32_t rows, float px,
                             float py, float reach, uint64_t cell)
{
    const int32_t own_x = floor_of(px), own_y = floor_of(py);
    const int32_t left = low_of(px - reach), right = high_of(px + reach, columns);
    const int32_t top = low_of(py - reach), bottom = high_of(py + reach, rows);
    for (int32_t r = top; r <= bottom; r++) {
        const float dy = (float)r + 0.5f - py;
        uint64_t *row = cells + (int64_t)r * columns;
        for (int32_t c = left; c <= right; c++) {
            const float dx = (float)c + 0.5f - px;
            const int is_own = (r == own_y) & (c == own_x);
            if ((dx * dx + dy * dy <= reach * reach || is_own) && cell < row[c])
                row[c] = cell;
        }
    }
}

/* A cell of the picture holds the distance of the nearest point above its number, so
 * that the smaller cell is the nearer point, of two as near the first; all bits where
 * there is none. `matrix` leads from the points to clip space, row by row; what lies
 * behind the eye or outside is left out. A disc covers the pixels whose middles are
 * within `radius` of the point, at most 64, and always the one it lies in. Numbers
 * count from `first`. */
EXPORT void ggscope_points_draw(const float *xyz, int64_t n, int64_t first,
                                const double *matrix, int64_t width, int64_t height,
                                double radius, uint64_t *cells)
{
    float m[16];
    for (int k = 0; k < 16; k++)
        m[k] = (float)matrix[k];
    const int32_t columns = (int32_t)width, rows = (int32_t)height;
    const float half_x = 0.5f * (float)width, half_y = 0.5f * (float)height;
    const float reach = radius < 64 ? (float)radius : 64;
    for (int64_t begin = 0; begin < n; begin += AT_ONCE) {
        const int32_t some = (int32_t)smaller(n - begin, AT_ONCE);
        float px[AT_ONCE], py[AT_ONCE], far[AT_ONCE];
        for (int32_t k = 0; k < some; k++) {
            const float *at = xyz + 3 * (begin + k), x = at[0], y = at[1], z = at[2];
            const float w = m[12] * x + m[13] * y + m[14] * z + m[15], by = 1 / w;
            px[k] = (1 + (m[0] * x + m[1] * y + m[2] * z + m[3]) * by) * half_x;
            py[k] = (1 - (m[4] * x + m[5] * y + m[6] * z + m[7]) * by) * half_y;
            far[k] = w > 0 ? 1 + (m[8] * x + m[9] * y + m[10] * z + m[11]) * by : -1;
        }
        /* What lies outside becomes a negative distance, and what is no number, too.
         * Of the others the cells are on their way while the next ones are looked at. */
        for (int32_t k = 0; k < some; k++) {
            const int is_seen = px[k] > -reach && px[k] < (float)width + reach
                                && py[k] > -reach && py[k] < (float)height + reach
                                && far[k] >= 0 && far[k] <= 2;
            if (!is_seen) {
                far[k] = -1;
                continue;
            }
            PREFETCH(cells + (int64_t)high_of(py[k] > 0 ? py[k] : 0, rows) * width
                     + high_of(px[k] > 0 ? px[k] : 0, columns));
        }
        for (int32_t k = 0; k < some; k++)
            if (far[k] >= 0)
                draw_disc(cells, columns, rows, px[k], py[k], reach,
                          cell_of(far[k], first + begin + k));
    }
}

/* The colour of the point in each cell, 0 where there is none. */
EXPORT void ggscope_points_resolve(const uint64_t *cells, int64_t n,
                                   const uint32_t *colors, uint32_t *pixels)
{
    for (int64_t i = 0; i < n; i++)
        pixels[i] = cells[i] == UINT64_MAX ? 0 : colors[(uint32_t)cells[i]];
}
