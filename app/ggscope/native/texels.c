/* What the columns of rows become in a picture: texels, and runs of columns that one
 * span fills or that are empty. `ColumnTable` in analysis/rows/columns.py says what the
 * columns mean, render/texels.py what the texels do.
 */
#include <stddef.h>

#include "native.h"

/* [rows, px] each. */
typedef struct {
    const double *busy;
    const int32_t *category;
    const int64_t *count, *first;
    const int64_t *waited; /* NULL: no row has waits */
    int64_t px;
} ColumnTable;

/* What is done with the idle time of a row. */
enum { TONED = 1, BEFORE = 2, AFTER = 4 };

static const uint32_t RGB = 0xFFFFFF, OPAQUE = 0xFF000000;

/* texels.FLOOR: opacity of a column that holds a span but is hardly covered. */
static const double FLOOR = 0.25;

static inline int is_empty(const ColumnTable *t, int64_t i)
{
    return t->count[i] == 0 && (!t->waited || t->waited[i] == 0);
}

/* The whole number next to a small positive one, of two the even one: what is behind
 * the point has no place beside so great a number. */
static inline uint32_t rounded(double value)
{
    const double great = 6755399441055744.0; /* 1.5 * 2^52 */
    return (uint32_t)((value + great) - great);
}

/* Give the idle columns of a row a tone: those between its spans, and those at an edge
 * behind which it has more. */
static void tone_row(const ColumnTable *t, int64_t from, int32_t idle, uint32_t tone,
                     uint32_t *body, uint32_t *feet)
{
    int64_t low = 0, high = t->px;
    if (!(idle & BEFORE))
        while (low < high && is_empty(t, from + low))
            low++;
    if (!(idle & AFTER))
        while (high > low && is_empty(t, from + high - 1))
            high--;
    for (int64_t k = low; k < high; k++)
        if (is_empty(t, from + k)) {
            body[k] = tone;
            if (feet)
                feet[k] = tone;
        }
}

/* Write the texels of n rows, at[i] of the table each; with feet two rows of texels for
 * each. hue, foot_hue: the colours of a row, 0: those of the category of each column,
 * the last one where there is none. */
EXPORT void ggscope_texels(const ColumnTable *t, const int64_t *at, int64_t n,
                           const uint32_t *hue, const uint32_t *foot_hue,
                           const uint32_t *colors, const uint32_t *foot_colors,
                           int64_t n_colors, double strength, const uint8_t *idle,
                           uint64_t tone, int32_t has_feet, uint32_t *out)
{
    const int64_t px = t->px;
    const double opaque = 255 * strength;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = at[i] * px;
        const double *busy = t->busy + from;
        const int32_t *category = t->category + from;
        const int64_t *count = t->count + from;
        uint32_t *body = out + i * px * (has_feet ? 2 : 1);
        uint32_t *feet = has_feet ? body + px : NULL;
        for (int64_t k = 0; k < px; k++) {
            if (!count[k]) {
                body[k] = 0;
                if (feet)
                    feet[k] = 0;
                continue;
            }
            const int64_t c = category[k] >= 0 && category[k] < n_colors
                                  ? category[k] : n_colors - 1;
            const uint32_t color = hue[i] ? hue[i] : colors[c];
            const double alpha = FLOOR + (1 - FLOOR) * busy[k];
            body[k] = (color & RGB) | rounded(alpha * opaque) << 24;
            if (feet)
                feet[k] = (foot_hue[i] ? foot_hue[i] : foot_colors[c]) | OPAQUE;
        }
        if (idle[i] & TONED)
            tone_row(t, from, idle[i], (uint32_t)tone, body, feet);
    }
}

/* Where runs go, and how many columns the least of them has. */
typedef struct {
    int64_t *owner, *row, *first, *stop;
    int64_t n, least;
} Runs;

static void put(Runs *r, int64_t owner, int64_t row, int64_t first, int64_t stop)
{
    if (stop - first < r->least)
        return;
    r->owner[r->n] = owner;
    r->row[r->n] = row;
    r->first[r->n] = first;
    r->stop[r->n++] = stop;
}

/* Write the runs of at least `least` >= 1 columns that one span fills alone, row by
 * row, and return how many there are: at most n * (px / least). */
EXPORT int64_t ggscope_texels_filled(const ColumnTable *t, const int64_t *at, int64_t n,
                                     int64_t least, int64_t *owner, int64_t *row,
                                     int64_t *first, int64_t *stop)
{
    Runs runs = {owner, row, first, stop, 0, least};
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = at[i] * t->px;
        const double *busy = t->busy + from;
        const int64_t *count = t->count + from, *span = t->first + from;
        int64_t k = 0;
        while (k < t->px) {
            if (count[k] != 1 || busy[k] != 1.0) {
                k++;
                continue;
            }
            const int64_t begin = k++;
            while (k < t->px && span[k] == span[begin] && count[k] == 1 && busy[k] == 1.0)
                k++;
            put(&runs, span[begin], i, begin, k);
        }
    }
    return runs.n;
}

/* The same for columns that hold nothing, neither spans nor waits; their owner is -1. */
EXPORT int64_t ggscope_texels_empty(const ColumnTable *t, const int64_t *at, int64_t n,
                                    int64_t least, int64_t *owner, int64_t *row,
                                    int64_t *first, int64_t *stop)
{
    Runs runs = {owner, row, first, stop, 0, least};
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = at[i] * t->px;
        int64_t k = 0;
        while (k < t->px) {
            if (!is_empty(t, from + k)) {
                k++;
                continue;
            }
            const int64_t begin = k++;
            while (k < t->px && is_empty(t, from + k))
                k++;
            put(&runs, -1, i, begin, k);
        }
    }
    return runs.n;
}
