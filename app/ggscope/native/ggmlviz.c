/* Walks the events of a .ggmlviz file, window by window, and writes what they hold
 * into columns; pairs begins with ends. `StreamColumns` and `Pairs` in
 * readers/ggmlviz say what the results mean.
 *
 * Nothing is allocated here. What does not fit is reported by FULL, and the caller
 * calls again with more room: no event is half taken. Files are hostile: an event is
 * looked at only where it lies within the window, and hashes are keyed by secrets of
 * the caller, so that nobody can forge a file of collisions.
 */
#include <string.h>

#include "native.h"

enum { PREFIX_BYTES = 13, ZERO_RUN = 64 };   /* as in layouts.py and walk.py */
enum { NAME_BLOCK_SHIFT = 12 };              /* columns.NAME_BLOCK */
enum { GRAPH_BEGIN, GRAPH_END, OP_BEGIN, OP_END, TENSOR_ALLOC };
enum { N_MEMBERS = 8 };                      /* event types with fields of their own */
enum { POINTER, NUMBER, SIZE, BACKEND, N_FIELDS };

/* Why a call returns; columns.py says the same. */
enum { END, TRUNCATED, ZEROS, BAD_FLAG, BAD_LABEL, FULL };

/* Flags of an interval; pairing.py says the same. */
enum { IS_GRAPH = 1, IS_UNFINISHED = 2, IS_ESTIMATED = 4 };

/* Where a field lies in the union of an event; width 0, 4 or 8 bytes. */
typedef struct {
    int32_t offset, width;
} Field;

typedef struct {
    const uint8_t *data;     /* the window; 64 readable bytes follow its end */
    int64_t end;             /* its bytes */
    const int64_t *body;     /* [256] bytes in front of label_len, by event type */
    const Field *fields;     /* [N_MEMBERS][N_FIELDS] */
    int64_t max_label;
    const uint64_t *secret;  /* [3], the last two odd */

    int64_t at;              /* in the window: where the next event starts */
    int64_t skip;            /* so many events are walked over before any is kept */
    int64_t row;             /* number of the next event in the file */
    int64_t names_every;     /* 0: no labels; k: of one block of events in k */

    int64_t n_starts, start_room;
    int64_t *starts;         /* in the window, of all events walked over */

    int64_t n, room;
    uint8_t *kind;
    uint64_t *time;
    int32_t *place;          /* row of threads and backends */
    uint64_t *pointer;
    uint32_t *number;
    int32_t *label;          /* row of label_ends; -1: none */

    int64_t n_sizes, size_room;
    uint64_t *sizes;         /* of memory events */

    int64_t n_places, place_room, place_mask;
    int32_t *place_slots;
    uint64_t *place_hashes;
    uint32_t *threads;
    uint64_t *backends;

    int64_t n_labels, label_room, label_mask, letter_room;
    int32_t *label_slots;
    uint64_t *label_hashes;
    int64_t *label_ends;     /* [n_labels + 1], the first is 0 */
    uint8_t *letters;
} Intake;

typedef struct {
    const uint8_t *kind;
    const int64_t *time;
    const int32_t *place;
    const uint64_t *pointer;
    const int64_t *order;       /* rows in time order; NULL: they are */
    const int32_t *thread_of;   /* [places] */
    const uint64_t *secret;

    /* Graph events in time order. */
    const int64_t *innermost;   /* the graph that is open after each; -1: none */
    const int64_t *last;        /* the event behind which each is not open; -1: none */
    const int64_t *graph_end;   /* time */
    const uint8_t *has_end;     /* whether its own end was recorded */
    int32_t *n_ops;             /* begins of ops in each graph */
    uint8_t *seen;              /* HAS_END, IS_MIXED */
    int64_t *current;           /* [threads] the innermost open graph; -1: none */

    int64_t next_graph;         /* graph events seen */
    int64_t n, n_strays;
    int32_t *begin;             /* rows, one for each begin */
    int32_t *owner;             /* graph around an op; of a graph: itself */
    int32_t *partner;           /* row of the end; -1: none */
    int32_t *link;              /* see push */
    int32_t *strays;            /* rows of ends without begin */

    int64_t n_keys, mask;
    int32_t *slots;             /* intervals by owner and pointer; -1: free */
} Pairing;

/* What is known of a graph's ops. */
enum { HAS_END = 1, IS_MIXED = 2 };

static inline uint32_t word32(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t word64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t mixed(const uint64_t *secret, uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * secret[1];
    hash ^= hash >> 32;
    return hash * secret[2];
}

static inline int64_t slot_of(uint64_t hash, int64_t mask)
{
    return (int64_t)(hash >> 32) & mask;
}

static uint64_t field(const uint8_t *at, Field where)
{
    if (where.width == 8)
        return word64(at + where.offset);
    return where.width == 4 ? word32(at + where.offset) : 0;
}

/* Whether nothing but zeros follows; see Walk.is_padding. */
static int is_padding(const Intake *in, int64_t at)
{
    int64_t rest = in->end - at < ZERO_RUN ? in->end - at : ZERO_RUN;
    if (rest < in->body[0])
        return 0;
    for (int64_t i = 0; i < rest; i++)
        if (in->data[at + i])
            return 0;
    return 1;
}

/* Find where the event at `at` ends, and its label_len (-1: none). */
static int step(const Intake *in, int64_t at, int64_t *after, int64_t *length)
{
    uint8_t kind = in->data[at];
    int64_t body_end = at + in->body[kind];
    *length = -1;
    if (kind == 0 && is_padding(in, at))
        return ZEROS;
    if (body_end > in->end)
        return TRUNCATED;
    *after = body_end;
    if (in->data[body_end - 1] == 0)
        return END;
    if (in->data[body_end - 1] > 1)
        return BAD_FLAG;
    if (body_end + 4 > in->end)
        return TRUNCATED;
    *length = word32(in->data + body_end);
    if (*length > in->max_label)
        return BAD_LABEL;
    *after = body_end + 4 + *length;
    return *after > in->end ? TRUNCATED : END;
}

static int32_t place_code(Intake *in, uint32_t thread, uint64_t backend)
{
    uint64_t hash = mixed(in->secret, in->secret[0] ^ thread, backend);
    int64_t slot = slot_of(hash, in->place_mask);
    int32_t code;
    while ((code = in->place_slots[slot]) >= 0) {
        if (in->threads[code] == thread && in->backends[code] == backend)
            return code;
        slot = (slot + 1) & in->place_mask;
    }
    code = (int32_t)in->n_places++;
    in->place_slots[slot] = code;
    in->place_hashes[code] = hash;
    in->threads[code] = thread;
    in->backends[code] = backend;
    return code;
}

/* May read up to 7 bytes behind the label, never more than 64 behind the window. */
static uint64_t label_hash(const Intake *in, const uint8_t *text, int64_t length)
{
    uint64_t hash = in->secret[0] ^ (uint64_t)length;
    int64_t k = 0;
    for (; k + 8 <= length; k += 8)
        hash = mixed(in->secret, hash, word64(text + k));
    if (k < length) {
        uint64_t keep = ~UINT64_C(0) >> (8 * (8 - (length - k)));
        hash = mixed(in->secret, hash, word64(text + k) & keep);
    }
    return hash;
}

static int32_t label_code(Intake *in, const uint8_t *text, int64_t length)
{
    uint64_t hash = label_hash(in, text, length);
    int64_t slot = slot_of(hash, in->label_mask);
    int32_t code;
    while ((code = in->label_slots[slot]) >= 0) {
        int64_t first = in->label_ends[code];
        if (in->label_hashes[code] == hash
            && in->label_ends[code + 1] - first == length
            && memcmp(in->letters + first, text, (size_t)length) == 0)
            return code;
        slot = (slot + 1) & in->label_mask;
    }
    code = (int32_t)in->n_labels++;
    in->label_slots[slot] = code;
    in->label_hashes[code] = hash;
    memcpy(in->letters + in->label_ends[code], text, (size_t)length);
    in->label_ends[code + 1] = in->label_ends[code] + length;
    return code;
}

static inline int has_room(const Intake *in)
{
    return in->n < in->room && in->n_starts < in->start_room
        && in->n_sizes < in->size_room && in->n_places < in->place_room
        && in->n_labels < in->label_room
        && in->letter_room - in->label_ends[in->n_labels] >= in->max_label;
}

/* Whether the labels of this block of events are wanted. */
static inline int is_named(const Intake *in)
{
    return in->names_every == 1
        || (in->names_every > 1
            && (in->row >> NAME_BLOCK_SHIFT) % in->names_every == 0);
}

static void keep(Intake *in, int64_t at, int64_t length)
{
    const uint8_t *event = in->data + at, *member = event + PREFIX_BYTES;
    uint8_t kind = event[0];
    int64_t i = in->n++;
    uint64_t backend = 0;
    in->kind[i] = kind;
    in->time[i] = word64(event + 1);
    in->pointer[i] = 0;
    in->number[i] = 0;
    if (kind < N_MEMBERS) {
        const Field *fields = in->fields + kind * N_FIELDS;
        in->pointer[i] = field(member, fields[POINTER]);
        in->number[i] = (uint32_t)field(member, fields[NUMBER]);
        backend = field(member, fields[BACKEND]);
        if (kind >= TENSOR_ALLOC)
            in->sizes[in->n_sizes++] = field(member, fields[SIZE]);
    }
    in->place[i] = place_code(in, word32(event + 9), backend);
    in->label[i] = -1;
    if (length >= 0 && is_named(in))
        in->label[i] = label_code(in, event + in->body[kind] + 4, length);
}

/* Take events from in->at up to the first at or behind `until`. */
EXPORT int32_t ggscope_ggmlviz_take(Intake *in, int64_t until)
{
    while (in->at < until) {
        int64_t after, length;
        if (!has_room(in))
            return FULL;
        int stop = step(in, in->at, &after, &length);
        if (stop != END)
            return stop;
        in->starts[in->n_starts++] = in->at;
        if (in->skip > 0)
            in->skip--;
        else
            keep(in, in->at, length);
        in->row++;
        in->at = after;
    }
    return END;
}

/* Fill free slots (-1) with the codes 0 .. n - 1. */
EXPORT void ggscope_ggmlviz_fill(int32_t *slots, int64_t mask, const uint64_t *hashes,
                                 int64_t n)
{
    for (int64_t code = 0; code < n; code++) {
        int64_t slot = slot_of(hashes[code], mask);
        while (slots[slot] >= 0)
            slot = (slot + 1) & mask;
        slots[slot] = (int32_t)code;
    }
}

/* Threads have numbers below those of graphs, so that ops outside graphs pair, too. */
static inline uint64_t key_hash(const Pairing *p, int64_t owner, int32_t thread,
                                uint64_t pointer)
{
    uint64_t group = (uint64_t)(owner >= 0 ? owner : -2 - (int64_t)thread);
    return mixed(p->secret, p->secret[0] ^ group, pointer);
}

static inline int32_t thread_of(const Pairing *p, int32_t row)
{
    return p->thread_of[p->place[row]];
}

static inline int is_same(const Pairing *p, int32_t i, int64_t owner, int32_t thread,
                          uint64_t pointer)
{
    int32_t row = p->begin[i];
    return p->owner[i] == owner && p->pointer[row] == pointer
        && (owner >= 0 || thread_of(p, row) == thread);
}

/* Return the slot of a key: its first interval, or a free slot. */
static int64_t find(const Pairing *p, int64_t owner, int32_t thread, uint64_t pointer)
{
    int64_t slot = slot_of(key_hash(p, owner, thread, pointer), p->mask);
    while (p->slots[slot] >= 0 && !is_same(p, p->slots[slot], owner, thread, pointer))
        slot = (slot + 1) & p->mask;
    return slot;
}

/* The open intervals of a key are a chain: the link of its first interval leads to
 * the one begun last (-1: none is open), the links of others to the one begun
 * before them. */
static void push(Pairing *p, int64_t slot, int32_t i)
{
    int32_t first = p->slots[slot];
    if (first < 0) {
        p->slots[slot] = p->link[i] = i;
        p->n_keys++;
    } else {
        p->link[i] = p->link[first];
        p->link[first] = i;
    }
}

static int32_t pop(Pairing *p, int64_t slot)
{
    int32_t first = p->slots[slot];
    int32_t open = first < 0 ? -1 : p->link[first];
    if (open >= 0)
        p->link[first] = open == first ? -1 : p->link[open];
    return open;
}

static void add(Pairing *p, int32_t row, int64_t owner)
{
    p->begin[p->n] = row;
    p->owner[p->n] = (int32_t)owner;
    p->partner[p->n] = -1;
    p->n++;
}

static void op_event(Pairing *p, int32_t row, int32_t thread)
{
    int64_t owner = p->current[thread];
    int64_t slot = find(p, owner, thread, p->pointer[row]);
    if (p->kind[row] == OP_BEGIN) {
        if (owner >= 0) {
            p->n_ops[owner]++;
            if (p->seen[owner] & HAS_END)
                p->seen[owner] |= IS_MIXED;
        }
        add(p, row, owner);
        push(p, slot, (int32_t)(p->n - 1));
        return;
    }
    int32_t open = pop(p, slot);
    if (open >= 0)
        p->partner[open] = row;
    else
        p->strays[p->n_strays++] = row;
    if (owner >= 0)
        p->seen[owner] |= HAS_END;
}

/* Pair the events [first, stop) in time order; return where it stopped for lack of
 * slots, or `stop`. The columns have room for every begin and end. */
EXPORT int64_t ggscope_ggmlviz_pair(Pairing *p, int64_t first, int64_t stop)
{
    for (int64_t i = first; i < stop; i++) {
        int32_t row = (int32_t)(p->order ? p->order[i] : i);
        uint8_t kind = p->kind[row];
        if (kind > OP_END)
            continue;
        if (2 * (p->n_keys + 1) > p->mask)
            return i;
        int32_t thread = thread_of(p, row);
        if (kind >= OP_BEGIN) {
            op_event(p, row, thread);
            continue;
        }
        int64_t graph = p->next_graph++;
        if (kind == GRAPH_BEGIN)
            add(p, row, graph);
        p->current[thread] = p->innermost[graph];
    }
    return stop;
}

/* Whether events to come can still pair with an interval of the key in a slot: one is
 * open, in a graph that goes on. A key without open ones is as good as none. */
static inline int is_live(const Pairing *p, int32_t first)
{
    if (first < 0 || p->link[first] < 0)
        return 0;
    int32_t owner = p->owner[first];
    return owner < 0 || p->last[owner] < 0 || p->last[owner] >= p->next_graph;
}

/* Return how many keys can still matter. */
EXPORT int64_t ggscope_ggmlviz_live(const Pairing *p)
{
    int64_t n = 0;
    for (int64_t slot = 0; slot <= p->mask; slot++)
        n += is_live(p, p->slots[slot]);
    return n;
}

/* Move the keys that can still matter into new slots, all -1. */
EXPORT void ggscope_ggmlviz_move(Pairing *p, int32_t *slots, int64_t mask)
{
    int32_t *old = p->slots;
    int64_t old_mask = p->mask;
    p->slots = slots;
    p->mask = mask;
    p->n_keys = 0;
    for (int64_t i = 0; i <= old_mask; i++) {
        int32_t first = old[i];
        if (!is_live(p, first))
            continue;
        int32_t row = p->begin[first];
        slots[find(p, p->owner[first], thread_of(p, row), p->pointer[row])] = first;
        p->n_keys++;
    }
}

/* Return base + length * slot / n without overflow, for slot <= n. */
static inline int64_t part(int64_t base, int64_t length, int64_t slot, int64_t n)
{
    return base + length / n * slot + length % n * slot / n;
}

/* Set the times and flags of the intervals [first, stop). `slot` counts the ops of
 * each graph so far, zeros at first; see ggmlviz_pairing for what it means. */
EXPORT void ggscope_ggmlviz_finish(const Pairing *p, const int64_t *graph_start,
                                   int64_t trace_end, int32_t *slot, int64_t first,
                                   int64_t stop, int64_t *start, int64_t *end,
                                   uint8_t *flags)
{
    for (int64_t i = first; i < stop; i++) {
        int32_t row = p->begin[i], owner = p->owner[i], partner = p->partner[i];
        start[i] = p->time[row];
        if (p->kind[row] == GRAPH_BEGIN) {
            end[i] = p->graph_end[owner];
            flags[i] = IS_GRAPH | (p->has_end[owner] ? 0 : IS_UNFINISHED);
            continue;
        }
        int64_t at = owner >= 0 ? slot[owner]++ : 0;
        flags[i] = partner >= 0 ? 0 : IS_UNFINISHED;
        if (partner < 0) {
            end[i] = owner >= 0 ? p->graph_end[owner] : trace_end;
        } else if (owner >= 0 && p->n_ops[owner] >= 2 && p->seen[owner] == HAS_END) {
            int64_t length = p->graph_end[owner] - graph_start[owner];
            int64_t n = p->n_ops[owner];
            start[i] = part(graph_start[owner], length, at, n);
            end[i] = part(graph_start[owner], length, at + 1, n);
            flags[i] = IS_ESTIMATED;
        } else {
            end[i] = p->time[partner];
        }
    }
}
