/* What the columns of rows become in a picture: texels, and runs of columns that one
 * span fills or that are empty. `ColumnTable` in analysis/rows/columns.py says what the
 * columns mean, render/texels.py what the texels do.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "native.h"

/* [rows, px] each. */
typedef struct {
    const double *busy;
    const int32_t *category;
    const int64_t *count, *first;
    const int64_t *waited;   /* NULL: no row has waits */
    const uint16_t *levels;  /* [px, levels] of each row, or NULL */
    const int64_t *level_at; /* [rows + 1], where those of each begin, times px */
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

/* ---- stacked columns --------------------------------------------------------- */

/* columns.FEW, OWN, WAITING, FREE: levels that are no category */
enum { FEW = 2, OWN = 0xFFFD, WAITING = 0xFFFE, FREE = 0xFFFF };

/* texels.WHOLE: weight of a stack that hides what a column would be without it */
enum { WHOLE = 4, MAX_THREADS = 8, BLOCK = 128, N_CODES = 1 << 16 };

/* Write how far columns of n rows are stacks, 0 to WHOLE: the more spans, the further.
 * What fills a run of fewer than `alone` columns is a mark, and no part of a chart. */
EXPORT void ggscope_texels_weights(const ColumnTable *t, const int64_t *at, int64_t n,
                                   int64_t alone, uint8_t *weight)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t *count = t->count + at[i] * t->px;
        uint8_t *out = weight + i * t->px;
        for (int64_t k = 0; k < t->px;) {
            const int64_t begin = k;
            while (k < t->px && count[k] > 0)
                k++;
            const int is_chart = k - begin >= alone || begin == 0 || k == t->px;
            for (int64_t c = begin; c < k; c++)
                out[c] = is_chart ? (uint8_t)smaller(larger(count[c] - FEW, 0), WHOLE) : 0;
            if (k < t->px)
                out[k++] = 0;
        }
    }
}

/* Write n levels of px columns, [n, px] from the bottom up: parts one on the other, by
 * their shares [parts, px], as columns.c does for those of a row. */
EXPORT void ggscope_texels_levels(const double *shares, int64_t n_parts, int64_t px,
                                  int64_t n, uint16_t *levels)
{
    for (int64_t k = 0; k < px; k++) {
        double total = 0;
        int64_t at = 0;
        for (int64_t part = 0; part < n_parts; part++) {
            total += shares[part * px + k];
            const double level = total * (double)n + 0.5;
            const int64_t stop = level < (double)n ? (int64_t)level : n;
            for (; at < stop; at++)
                levels[at * px + k] = (uint16_t)part;
        }
        for (; at < n; at++)
            levels[at * px + k] = FREE;
    }
}

/* Write a picture of steps, rows [low, high) of px texels: those from first to stop of a
 * column have a colour, the others none. */
EXPORT void ggscope_texels_steps(const int32_t *first, const int32_t *stop, int64_t px,
                                 int32_t low, int32_t high, uint64_t color,
                                 uint32_t *out)
{
    const uint32_t fill = (uint32_t)color;
    for (int32_t row = low; row < high; row++, out += px)
        for (int64_t k = 0; k < px; k++)
            out[k] = row >= first[k] && row < stop[k] ? fill : 0;
}

/* How stacks look; see ggscope_texels. */
typedef struct {
    const uint32_t *hue, *foot_hue, *colors, *foot_colors;
    int64_t n_colors;
    double strength;
    const uint8_t *idle;
    int64_t tone, waiting; /* colours; waiting 0: it is not shown */
    int64_t least;         /* levels of what is hardly covered */
    int64_t has_feet, is_premultiplied;
} StackLook;

/* A colour with its channels times its opacity, rounded as Qt's raster engine does. */
static uint32_t premultiplied(uint32_t color)
{
    const uint32_t alpha = color >> 24;
    if (alpha == 255)
        return color;
    uint32_t result = alpha << 24;
    for (int shift = 0; shift < 24; shift += 8) {
        const uint32_t part = ((color >> shift) & 255) * alpha;
        result |= (part + (part >> 8) + 128) >> 8 << shift;
    }
    return result;
}

/* A colour between two of which both may be see-through: b by weight / WHOLE. */
static uint32_t between(uint32_t a, uint32_t b, uint32_t weight)
{
    const uint32_t of_a = (a >> 24) * (WHOLE - weight), of_b = (b >> 24) * weight;
    const uint32_t sum = of_a + of_b;
    if (sum == 0)
        return 0;
    uint32_t color = (sum + WHOLE / 2) / WHOLE << 24;
    for (int shift = 0; shift < 24; shift += 8)
        color |= ((((a >> shift) & 255) * of_a + ((b >> shift) & 255) * of_b + sum / 2) /
                  sum)
                 << shift;
    return color;
}

/* Write the texels of column k, which is a stack: from the bottom up, each px apart.
 * table: the colour of each code, foot: that of a stack too low to be seen; body, feet:
 * what the column is as far as it is no stack, by weight. */
static void stack_column(const uint16_t *codes, int64_t h, const uint32_t *table,
                         uint32_t own, uint32_t foot, int64_t least, uint32_t body,
                         uint32_t feet, int64_t n_foot, uint32_t weight, int64_t px,
                         int is_premultiplied, uint32_t *texels)
{
    for (int64_t level = 0; level < h;) {
        const uint16_t code = codes[level];
        const int is_foot = code > OWN && level < least;
        const int is_low = level < n_foot;
        int64_t stop = level + 1;
        const int64_t bound = is_foot ? smaller(least, h) : h;
        while (stop < bound && codes[stop] == code &&
               (weight == WHOLE || (stop < n_foot) == is_low))
            stop++;
        uint32_t color = is_foot ? foot : code == OWN ? own : table[code];
        if (weight != WHOLE)
            color = between(is_low ? feet : body, color, weight);
        if (is_premultiplied)
            color = premultiplied(color);
        for (; level < stop; level++)
            texels[-level * px] = color;
    }
}

/* Write the texels of n columns by their codes alone, row by row: no branch. */
static void stack_block(const uint16_t *codes, int64_t h, const uint32_t *table,
                        int64_t n, int64_t px, uint32_t *bottom)
{
    for (int64_t level = 0; level < h; level++) {
        uint32_t *texels = bottom - level * px;
        for (int64_t k = 0; k < n; k++)
            texels[k] = table[codes[k * h + level]];
    }
}

/* Rows whose pictures are written, by several threads. */
typedef struct {
    const ColumnTable *table;
    const StackLook *look;
    const int64_t *at, *foot, *top;
    int64_t n;
    const uint8_t *weight;
    const uint32_t *flat;
    uint32_t *colors, *out;
    atomic_int_fast64_t next_row, next_thread;
} Stacks;

/* Write the picture of row i; colors: twice 65536 of them, by code, written: as they
 * are mixed, then as they are written. */
static void stack_row(const Stacks *s, int64_t i, uint32_t *colors)
{
    const ColumnTable *t = s->table;
    const StackLook *look = s->look;
    const int64_t px = t->px, from = s->at[i], last = look->n_colors - 1;
    const int64_t h = t->level_at[from + 1] - t->level_at[from], n_foot = s->foot[i];
    const uint16_t *levels = t->levels + t->level_at[from] * px;
    const int32_t *category = t->category + from * px;
    const uint8_t *weight = s->weight + i * px;
    const uint32_t *body = s->flat + i * px * (look->has_feet ? 2 : 1);
    const uint32_t *feet = look->has_feet ? body + px : body;
    const uint32_t hue = look->hue[i], alpha = rounded(255 * look->strength) << 24;
    for (int64_t c = 0; c <= last && c < OWN; c++)
        colors[c] = ((hue ? hue : look->colors[c]) & RGB) | alpha;
    colors[FREE] = look->idle[i] & TONED ? (uint32_t)look->tone : 0;
    colors[WAITING] = look->waiting ? (uint32_t)look->waiting : colors[FREE];
    const int is_premultiplied = look->is_premultiplied != 0;
    uint32_t *seen = colors;
    if (is_premultiplied) {
        seen += N_CODES;
        for (int64_t c = 0; c <= last && c < OWN; c++)
            seen[c] = premultiplied(colors[c]);
        seen[FREE] = premultiplied(colors[FREE]);
        seen[WAITING] = premultiplied(colors[WAITING]);
    }
    uint32_t *bottom = s->out + (s->top[i] + h - 1) * px;
    int is_written = 0;
    for (int64_t k = 0; k < px; k++) {
        if (k % BLOCK == 0) {
            const int64_t n = smaller(BLOCK, px - k);
            int64_t n_whole = 0;
            for (int64_t c = k; c < k + n; c++)
                n_whole += weight[c] == WHOLE;
            is_written = n_whole > n / 2;
            if (is_written)
                stack_block(levels + k * h, h, seen, n, px, bottom + k);
        }
        const uint16_t *codes = levels + k * h;
        if (is_written && weight[k] == WHOLE && codes[0] < OWN &&
            codes[smaller(look->least, h) - 1] < OWN)
            continue;
        if (weight[k] == 0) {
            const uint32_t high = is_premultiplied ? premultiplied(body[k]) : body[k];
            const uint32_t low = is_premultiplied ? premultiplied(feet[k]) : feet[k];
            for (int64_t level = 0; level < h; level++)
                bottom[k - level * px] = level < n_foot ? low : high;
            continue;
        }
        const int64_t c = category[k] < 0 || category[k] > last ? last : category[k];
        uint32_t strong = colors[c];
        if (look->has_feet)
            strong = look->foot_hue[i] ? look->foot_hue[i] : look->foot_colors[c];
        stack_column(codes, h, colors, colors[c], (strong & RGB) | alpha,
                     look->least, body[k], feet[k], n_foot, weight[k], px,
                     is_premultiplied, bottom + k);
    }
}

static void *stack_rows(void *argument)
{
    Stacks *s = argument;
    uint32_t *colors = s->colors + atomic_fetch_add(&s->next_thread, 1) * 2 * N_CODES;
    for (;;) {
        const int64_t i = atomic_fetch_add(&s->next_row, 1);
        if (i >= s->n)
            return NULL;
        stack_row(s, i, colors);
    }
}

/* Write the pictures of n rows, at[i] of the table each, with a row of texels for each
 * of their levels, from the top down.
 *
 * foot: n, then n + 1 where the picture of each row begins, in rows of texels; weight:
 * [n, px]; flat: what columns are where they are no stacks, [n, px], or body and foot,
 * [n, 2, px]; colors: [n_threads, 2, 65536], written. */
EXPORT void ggscope_texels_stacks(const ColumnTable *t, const StackLook *look,
                                  const int64_t *at, int64_t n, const int64_t *foot,
                                  const uint8_t *weight, const uint32_t *flat,
                                  uint32_t *colors, uint32_t *out, int64_t n_threads)
{
    Stacks stacks = {
        .table = t, .look = look, .at = at, .foot = foot, .top = foot + n, .n = n,
        .weight = weight, .flat = flat, .colors = colors, .out = out,
    };
    atomic_init(&stacks.next_row, 0);
    atomic_init(&stacks.next_thread, 0);
    pthread_t helpers[MAX_THREADS];
    int64_t n_helpers = 0;
    while (n_helpers < smaller(n_threads, MAX_THREADS) - 1 &&
           pthread_create(&helpers[n_helpers], NULL, stack_rows, &stacks) == 0)
        n_helpers++;
    stack_rows(&stacks);
    for (int64_t i = 0; i < n_helpers; i++)
        pthread_join(helpers[i], NULL);
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
