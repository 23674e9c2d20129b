/* Spans for other viewers: laid out on tracks, written as JSON and as protobuf, summed
 * by stack.
 *
 * Writers go on where the room ended: each returns how many rows it has written, and
 * what it needs to know of earlier rows is kept by the caller. Nothing here allocates.
 */
#include <string.h>

#include "native.h"

enum { WHOLE = 'X', OPEN = 'B', INSTANT = 'i', COUNTER = 'C', SOURCE = 's', TARGET = 'f' };
enum { NUMBER_BYTES = 21, EVENT_BYTES = 256 };
#define NONE (-1)
#define ENDLESS INT64_MAX

/* Texts by number, one behind the other. */
typedef struct {
    const uint8_t *bytes;
    const int64_t *offset;       /* one more than texts */
} ExportTexts;

/* Events in the order in which they are written. */
typedef struct {
    int64_t n, n_args;
    const uint8_t *kind;         /* letter as of Chrome's phases */
    const int64_t *start, *end;  /* ns; `end` of whole ones */
    const int32_t *name, *category, *track; /* texts and place, -1: none */
    const int64_t *args;         /* n_args columns of n, texts or numbers; < 0: none */
    const int32_t *key;          /* text of each argument's name */
    const uint8_t *is_text;      /* of each argument */
    const int64_t *id;           /* of arrows */
    const double *value;         /* of counters */
    const int64_t *flow_at;      /* n + 1: first of `flow` of each row; may be NULL */
    const uint64_t *flow;        /* ids of arrows that begin here, those that end * 2 + 1 */
    const uint8_t *number;       /* 32 bytes each: counters' values as text */
} ExportRows;

/* ---- tracks ---- */

/* Which of a lane's tracks are free: of each the end of the innermost open span. */
typedef struct {
    int64_t capacity;            /* of tracks, a power of two */
    int64_t *tree;               /* 2 * capacity: largest end below each node */
    int32_t *top;                /* of each track, the innermost open span; -1: none */
    int32_t *below;              /* of each span, the one around it on its track */
    int32_t *heap;               /* open spans, the one that ends first in front */
} ExportSpace;

static void set_track(const ExportSpace *s, int64_t track, int64_t end)
{
    int64_t node = s->capacity + track;
    s->tree[node] = end;
    for (node >>= 1; node; node >>= 1) {
        const int64_t largest = larger(s->tree[2 * node], s->tree[2 * node + 1]);
        if (s->tree[node] == largest)
            return;
        s->tree[node] = largest;
    }
}

static int64_t first_track(const ExportSpace *s, int64_t end)
{
    int64_t node = 1;
    if (s->tree[1] < end)
        return NONE;
    while (node < s->capacity)
        node = 2 * node + (s->tree[2 * node] < end);
    return node - s->capacity;
}

/* Whether an open span ends first; of those that end together the innermost does. */
static int is_sooner(const int64_t *end, int32_t a, int32_t b)
{
    return end[a] < end[b] || (end[a] == end[b] && a > b);
}

static void push(int32_t *heap, int64_t n, int32_t span, const int64_t *end)
{
    while (n && is_sooner(end, span, heap[(n - 1) / 2])) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = span;
}

static void pop(int32_t *heap, int64_t n, const int64_t *end)
{
    const int32_t span = heap[n];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n)
            break;
        child += child + 1 < n && is_sooner(end, heap[child + 1], heap[child]);
        if (is_sooner(end, span, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = span;
}

/* Lay the spans of a lane, by start and longer ones first, on the first track on which
 * each lies within another or behind all. Returns the number of tracks, -1 where there
 * are more than the space has room for. */
EXPORT int64_t ggscope_export_tracks(int64_t n, const int64_t *start,
                                     const int64_t *end, const ExportSpace *s,
                                     int32_t *track)
{
    int64_t n_open = 0, n_tracks = 0;
    for (int64_t i = 0; i < 2 * s->capacity; i++)
        s->tree[i] = ENDLESS;
    memset(s->top, 0xFF, (size_t)s->capacity * sizeof *s->top);
    for (int64_t i = 0; i < n; i++) {
        while (n_open && end[s->heap[0]] <= start[i]) {
            const int32_t over = s->heap[0], around = s->below[over];
            pop(s->heap, --n_open, end);
            s->top[track[over]] = around;
            set_track(s, track[over], around < 0 ? ENDLESS : end[around]);
        }
        const int64_t place = first_track(s, end[i]);
        if (place < 0)
            return NONE;
        track[i] = (int32_t)place;
        n_tracks = larger(n_tracks, place + 1);
        s->below[i] = s->top[place];
        s->top[place] = (int32_t)i;
        set_track(s, place, end[i]);
        push(s->heap, n_open++, (int32_t)i, end);
    }
    return n_tracks;
}

/* How spans lie within each other on their tracks; they come by track and start,
 * longer ones first.
 *
 * parent: the span around each, -1 none. moment: a time at which each is the innermost,
 * its end where there is none. room: until when nothing else begins or ends. Returns
 * how deep they lie at most. */
EXPORT int64_t ggscope_export_nest(int64_t n, const int32_t *track,
                                   const int64_t *start, const int64_t *end,
                                   int32_t *parent, int64_t *moment, int64_t *room)
{
    int64_t deepest = 0, depth = 0;
    int32_t around = NONE;
    for (int64_t i = 0; i < n; i++) {
        if (!i || track[i] != track[i - 1]) {
            around = NONE;
            depth = 0;
        }
        while (around >= 0 && end[around] <= start[i]) {
            /* The last one that ends before this begins: its wait may last until then. */
            room[around] = smaller(room[around], larger(start[i], end[around]));
            around = parent[around];
            depth--;
        }
        parent[i] = around;
        moment[i] = start[i];
        room[i] = around >= 0 ? end[around] : ENDLESS;
        if (around >= 0 && start[i] <= moment[around])
            moment[around] = larger(moment[around], end[i]);
        around = (int32_t)i;
        deepest = larger(deepest, ++depth);
    }
    return deepest;
}

/* ---- JSON ---- */

static uint8_t *put(uint8_t *at, const void *bytes, int64_t n)
{
    memcpy(at, bytes, (size_t)n);
    return at + n;
}

#define PUT(at, word) put(at, word, (int64_t)sizeof(word) - 1)

static uint8_t *put_text(uint8_t *at, const ExportTexts *texts, int64_t number)
{
    const int64_t first = texts->offset[number];
    return put(at, texts->bytes + first, texts->offset[number + 1] - first);
}

static int64_t text_bytes(const ExportTexts *texts, int64_t number)
{
    return number < 0 ? 0 : texts->offset[number + 1] - texts->offset[number];
}

static uint8_t *put_number(uint8_t *at, int64_t number)
{
    uint8_t digits[NUMBER_BYTES];
    int n = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    if (number < 0)
        *at++ = '-';
    do {
        digits[n++] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (n)
        *at++ = digits[--n];
    return at;
}

/* Nanoseconds, not negative, as microseconds with three digits behind the point. */
static uint8_t *put_micros(uint8_t *at, int64_t ns)
{
    const int64_t rest = ns % 1000;
    at = put_number(at, ns / 1000);
    *at++ = '.';
    *at++ = (uint8_t)('0' + rest / 100);
    *at++ = (uint8_t)('0' + rest / 10 % 10);
    *at++ = (uint8_t)('0' + rest % 10);
    return at;
}

/* Bytes of a row's texts, and a bound of all else in it. */
static int64_t most_bytes(const ExportRows *r, const ExportTexts *texts,
                          const ExportTexts *tracks, int64_t i)
{
    int64_t n = EVENT_BYTES + text_bytes(texts, r->name[i]) +
        text_bytes(texts, r->category[i]) + text_bytes(tracks, r->track[i]);
    for (int64_t k = 0; k < r->n_args; k++) {
        const int64_t value = r->args[k * r->n + i];
        if (value >= 0)
            n += text_bytes(texts, r->key[k]) + NUMBER_BYTES + 8 +
                (r->is_text[k] ? text_bytes(texts, value) : 0);
    }
    if (r->flow_at != NULL)
        n += (r->flow_at[i + 1] - r->flow_at[i]) * 16;
    return n;
}

static uint8_t *put_arguments(uint8_t *at, const ExportRows *r,
                              const ExportTexts *texts, int64_t i)
{
    int any = 0;
    for (int64_t k = 0; k < r->n_args; k++) {
        const int64_t value = r->args[k * r->n + i];
        if (value < 0)
            continue;
        at = any ? PUT(at, ",") : PUT(at, ",\"args\":{");
        any = 1;
        at = put_text(at, texts, r->key[k]);
        *at++ = ':';
        at = r->is_text[k] ? put_text(at, texts, value) : put_number(at, value);
    }
    return any ? PUT(at, "}") : at;
}

/* Write events from a row on as Chrome trace events, each with a comma before it; texts
 * are quoted, those of tracks are their members. `place` has the row that follows and
 * the bytes written. Returns 0, or how much room the next row needs. */
EXPORT int64_t ggscope_export_json(const ExportRows *r, const ExportTexts *texts,
                                   const ExportTexts *tracks, int64_t first,
                                   int64_t capacity, uint8_t *out, int64_t *place)
{
    uint8_t *at = out;
    for (int64_t i = first; i < r->n; i++) {
        const int64_t most = most_bytes(r, texts, tracks, i);
        if (at - out + most > capacity) {
            place[0] = i;
            place[1] = at - out;
            return most;
        }
        const uint8_t kind = r->kind[i];
        at = PUT(at, ",\n{\"ph\":\"");
        *at++ = kind;
        at = PUT(at, "\",\"name\":");
        at = put_text(at, texts, r->name[i]);
        if (r->category[i] >= 0) {
            at = PUT(at, ",\"cat\":");
            at = put_text(at, texts, r->category[i]);
        }
        at = PUT(at, ",\"ts\":");
        at = put_micros(at, r->start[i]);
        if (kind == WHOLE) {
            at = PUT(at, ",\"dur\":");
            at = put_micros(at, r->end[i] - r->start[i]);
        } else if (kind == INSTANT) {
            at = PUT(at, ",\"s\":\"t\"");
        } else if (kind == SOURCE || kind == TARGET) {
            at = PUT(at, ",\"id\":");
            at = put_number(at, r->id[i]);
            if (kind == TARGET)
                at = PUT(at, ",\"bp\":\"e\"");
        }
        *at++ = ',';
        at = put_text(at, tracks, r->track[i]);
        if (kind == COUNTER) {
            const char *number = (const char *)r->number + i * 32;
            at = PUT(at, ",\"args\":{\"value\":");
            at = put(at, number, (int64_t)strlen(number));
            at = PUT(at, "}");
        } else {
            at = put_arguments(at, r, texts, i);
        }
        *at++ = '}';
    }
    place[0] = r->n;
    place[1] = at - out;
    return 0;
}

/* ---- protobuf ---- */

enum { VARINT, FIXED64, LENGTH };
/* Fields of TracePacket, TrackEvent and DebugAnnotation, and values of Type. */
enum { TIMESTAMP = 8, SEQUENCE = 10, TRACK_EVENT = 11, SEQUENCE_FLAGS = 13 };
enum {
    CATEGORY = 3, ANNOTATION = 4, TYPE = 9, EVENT_NAME = 10, TRACK = 11, FLOWS = 47,
    LAST_FLOWS = 48, VALUE = 44,
};
enum { ANNOTATION_NAME = 1, INT_VALUE = 4, STRING_VALUE = 17 };
enum { BEGIN_SLICE = 1, END_SLICE, INSTANT_SLICE, COUNTER_SLICE };
enum { NEEDS_EARLIER = 2, LENGTH_BYTES = 4 };

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_field(uint8_t *at, int field, uint64_t value)
{
    return put_varint(put_varint(at, (uint64_t)field << 3 | VARINT), value);
}

/* A message whose length is not known yet: four bytes are left for it. */
static uint8_t *begin_message(uint8_t *at, int field)
{
    return put_varint(at, (uint64_t)field << 3 | LENGTH) + LENGTH_BYTES;
}

static void end_message(uint8_t *begin, const uint8_t *end)
{
    uint64_t length = (uint64_t)(end - begin);
    for (int i = LENGTH_BYTES; i; i--, length >>= 7)
        begin[-i] = (uint8_t)((length & 0x7F) | (i > 1 ? 0x80 : 0));
}

static uint8_t *put_event(uint8_t *at, const ExportRows *r, int64_t i, int type,
                          int64_t time)
{
    const uint64_t uuid = (uint64_t)r->track[i];
    uint8_t *packet = at = begin_message(at, 1);
    at = put_field(at, TIMESTAMP, (uint64_t)time);
    at = put_field(at, SEQUENCE, 1);
    at = put_field(at, SEQUENCE_FLAGS, NEEDS_EARLIER);
    uint8_t *event = at = begin_message(at, TRACK_EVENT);
    at = put_field(at, TYPE, (uint64_t)type);
    at = put_field(at, TRACK, uuid);
    if (type == COUNTER_SLICE) {
        at = put_varint(at, VALUE << 3 | FIXED64);
        at = put(at, r->value + i, 8);
    } else if (type != END_SLICE) {
        at = put_field(at, EVENT_NAME, (uint64_t)r->name[i] + 1);
        if (r->category[i] >= 0)
            at = put_field(at, CATEGORY, (uint64_t)r->category[i] + 1);
        for (int64_t k = 0; k < r->n_args; k++) {
            const int64_t value = r->args[k * r->n + i];
            if (value < 0)
                continue;
            uint8_t *note = at = begin_message(at, ANNOTATION);
            at = put_field(at, ANNOTATION_NAME, (uint64_t)r->key[k] + 1);
            at = r->is_text[k] ? put_field(at, STRING_VALUE, (uint64_t)value + 1)
                               : put_field(at, INT_VALUE, (uint64_t)value);
            end_message(note, at);
        }
        for (int64_t k = r->flow_at == NULL ? 0 : r->flow_at[i];
             r->flow_at != NULL && k < r->flow_at[i + 1]; k++) {
            const uint64_t id = r->flow[k] >> 1;
            at = put_varint(at, (uint64_t)(r->flow[k] & 1 ? LAST_FLOWS : FLOWS) << 3 |
                                FIXED64);
            at = put(at, &id, 8);
        }
    }
    end_message(event, at);
    end_message(packet, at);
    return at;
}

/* Ends of the spans that are open on a track, innermost last. */
typedef struct {
    int64_t depth;
    int64_t *end;
    int32_t *track;
} ExportStack;

/* Write events from a row on as packets, each begin of a slice and each end. As
 * ggscope_export_json; `is_last` where no more slices follow: open ones are ended. */
EXPORT int64_t ggscope_export_packets(const ExportRows *r, int64_t first,
                                      int64_t is_last, ExportStack *s,
                                      int64_t capacity, uint8_t *out, int64_t *place)
{
    uint8_t *at = out;
    for (int64_t i = first; i < r->n || (is_last && i == r->n); i++) {
        const int is_end = i == r->n;
        int64_t most = EVENT_BYTES + (is_end ? 0 : r->n_args * 48);
        if (!is_end && r->flow_at != NULL)
            most += (r->flow_at[i + 1] - r->flow_at[i]) * 16;
        for (;;) {
            if (at - out + most > capacity) {
                place[0] = i;
                place[1] = at - out;
                return most;
            }
            const int64_t top = s->depth - 1;
            if (top < 0 || (!is_end && s->track[top] == r->track[i] &&
                            s->end[top] > r->start[i]))
                break;
            const ExportRows over = {.track = s->track};
            at = put_event(at, &over, top, END_SLICE, s->end[top]);
            s->depth = top;
        }
        if (is_end)
            break;
        const uint8_t kind = r->kind[i];
        at = put_event(at, r, i, kind == COUNTER ? COUNTER_SLICE : kind == INSTANT
                       ? INSTANT_SLICE : BEGIN_SLICE, r->start[i]);
        if (kind == WHOLE) {
            s->end[s->depth] = r->end[i];
            s->track[s->depth++] = r->track[i];
        }
    }
    place[0] = r->n + (is_last != 0);
    place[1] = at - out;
    return 0;
}

/* ---- stacks ---- */

/* Stacks of frames, each once. */
typedef struct {
    int64_t count, capacity, n_slots; /* slots: a power of two, more than `capacity` */
    int32_t *slots;              /* number + 1; 0: free */
    int32_t *under;              /* of each stack, the one without its last frame */
    int32_t *frame;
    int64_t *time;               /* of it alone */
} ExportStacks;

static int64_t stack_of(ExportStacks *s, int32_t under, int32_t frame)
{
    const uint64_t key = (uint64_t)(uint32_t)under << 32 | (uint32_t)frame;
    const uint64_t mask = (uint64_t)s->n_slots - 1;
    for (uint64_t slot = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 20 & mask;;
         slot = (slot + 1) & mask) {
        const int32_t number = s->slots[slot] - 1;
        if (number < 0) {
            if (s->count == s->capacity)
                return NONE;
            s->slots[slot] = (int32_t)++s->count;
            s->under[s->count - 1] = under;
            s->frame[s->count - 1] = frame;
            s->time[s->count - 1] = 0;
            return s->count - 1;
        }
        if (s->under[number] == under && s->frame[number] == frame)
            return number;
    }
}

/* Add the time of spans to their stacks, less what lies within; spans as for
 * ggscope_export_nest. `timed`: whether the end is known; one whose is not is a frame
 * without time. head: the frame of each track. stack: of each span, and payer: whose
 * time is taken within it, both filled. Returns the row at which there was no room. */
EXPORT int64_t ggscope_export_stacks(int64_t n, const int32_t *track,
                                     const int64_t *start, const int64_t *end,
                                     const int32_t *parent, const int32_t *frame,
                                     const uint8_t *timed, const int32_t *head,
                                     ExportStacks *s, int32_t *stack, int32_t *payer)
{
    for (int64_t i = 0; i < n; i++) {
        const int32_t around = parent[i];
        const int64_t under = around >= 0 ? stack[around]
                                          : stack_of(s, NONE, head[track[i]]);
        const int64_t own = under < 0 ? NONE : stack_of(s, (int32_t)under, frame[i]);
        if (own < 0)
            return i;
        stack[i] = (int32_t)own;
        payer[i] = around >= 0 ? payer[around] : NONE;
        if (!timed[i])
            continue;
        if (payer[i] >= 0)
            s->time[payer[i]] -= end[i] - start[i];
        s->time[own] += end[i] - start[i];
        payer[i] = (int32_t)own;
    }
    return n;
}
