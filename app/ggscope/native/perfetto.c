/* Packets of a Perfetto trace (protobuf) into rows.
 *
 * Form: trace.proto, trace_packet.proto, track_event.proto, track_descriptor.proto,
 * interned_data.proto and clock_snapshot.proto of Perfetto. What a packet says depends on
 * those before it of its sequence: what numbers stand for (until the sequence begins
 * anew), defaults, clocks that count differences. That is kept in tables of the caller,
 * which also have a small number for each pair of large ones (sequence and clock, uuids,
 * sequence and interned text). Nothing here allocates.
 */
#include <string.h>

#include "native.h"
#include "text_table.h"

/* readers/perfetto/packets.py: Mark, Of, Status, Space */
enum { NEGATIVE = 1, OF_PROCESS = 2, OF_ALL = 4, TO_NEXT = 8 };
/* The phase of a state, which lasts until the next one of its track. */
enum { STATE = 'Z' };
enum {
    PROCESS = 1, THREAD = 2, COUNTER = 4, INCREMENTAL = 8, APART = 16, SEPARATE = 32,
    BESIDE = 64, LISTED = 128,
};
enum { MORE, FULL, GROW, PACKED, ZSTD, ATTRIBUTES };
enum { UUID, THREAD_ID, PROCESS_ID, ACTIVITY };    /* of tracks */
enum { NAME, CATEGORY, BOTH, NOTE_NAME, NOTE_TEXT }; /* of what is interned */
enum { OF_SPAN = 5, OF_TIME, OF_OP, OF_DETAIL }; /* annotations of ggscope, from 1 on */
enum { FLOW, LAST_FLOW, FLOW_OUT, FLOW_IN, FLOW_THROUGH };

/* Fields of TracePacket. */
enum {
    PROCESS_TREE = 2, CLOCK_SNAPSHOT = 6, TRACK_EVENT = 11, PROCESS_DESCRIPTOR = 43,
    THREAD_DESCRIPTOR = 44, COMPRESSED = 50, TRACK_DESCRIPTOR = 60, SERVICE_EVENT = 69,
    TRACE_ATTRIBUTES = 126, ZSTD_COMPRESSED = 133,
    INTERNED = 12, DEFAULTS = 59,
};
enum { CLEARED_FLAG = 1, NEEDED_FLAG = 2, MONOTONIC = 3, FIRST_LOCAL = 64, LAST_LOCAL = 127 };
enum {
    VARINT, FIXED64, BYTES, FIXED32 = 5, N_KINDS = 2048, MAX_EXTRA = 8, SPARE = 64,
    MAX_ITEMS = 1 << 20, LONGEST_PACKET = 64 << 20, RESYNC_BYTES = 1 << 20,
    RESYNC_FIELDS = 64, LONGEST_TEXT = 1 << 20,
};
#define FARTHEST (INT64_C(1) << 62)
#define NONE (-1)

/* A part of a message. */
typedef struct {
    const uint8_t *at, *end;
} Piece;

/* One row per slice event and instant. Names and categories: numbers of texts in the
 * block from 0, of interned texts from -2 downwards, -1 none. */
typedef struct {
    int64_t count, capacity;
    int64_t *offset, *time, *duration;
    int32_t *clock, *track, *name, *category;
    uint8_t *phase, *flags;
    int32_t *layer, *token, *core, *numa; /* annotations of what ggscope wrote; -1 */
    int32_t *word, *span;        /* op or detail, a text as names are; number of a span */
    uint8_t *quality;            /* first letter of its annotation "time"; 0 */
} PerfettoRows;

/* One row per sample of a counter. */
typedef struct {
    int64_t count, capacity;
    int64_t *time;
    int32_t *clock, *track, *state;
    double *value;
} PerfettoValues;

/* One row per flow that an event belongs to; `row` of the block. */
typedef struct {
    int64_t count, capacity;
    int32_t *row;
    uint64_t *id;
    uint8_t *role;
} PerfettoFlows;

/* One row per description of a track, thread or process; texts as above. */
typedef struct {
    int64_t count, capacity;
    int32_t *track, *parent;     /* numbers of tracks; parent -1: none */
    int32_t *name, *process, *thread, *unit, *merge_key;
    int64_t *pid, *tid, *multiplier;
    int32_t *rank;
    uint8_t *flags, *unit_code, *ordering;
} PerfettoTracks;

/* One row per interned text: where it stands, and its number among texts or -1. */
typedef struct {
    int64_t count, capacity;
    int32_t *number, *length, *text;
    int64_t *offset;
} PerfettoInterned;

/* One row per clock of a snapshot, in ns. */
typedef struct {
    int64_t count, capacity;
    int32_t *snapshot, *clock;
    int64_t *time;
} PerfettoSnapshots;

/* One row per beginning of what a sequence knows. */
typedef struct {
    int64_t count, capacity;
    int32_t *sequence;
    int64_t *offset;
} PerfettoStates;

/* Small numbers for pairs of large ones. */
typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, at least twice `capacity` */
    uint64_t secret;
    int32_t *slots;              /* number + 1; 0 = free */
    uint64_t *first, *second;
    uint8_t *space;
} PerfettoNumbers;

/* What is known of each sequence. */
typedef struct {
    int32_t *state;              /* number of its knowledge, counted over all */
    uint8_t *is_valid, *has_track, *has_thread, *has_time;
    uint8_t *n_extra, *n_extra_double;
    int64_t *clock, *pid, *tid, *time;
    uint64_t *track;
    int32_t *extra, *extra_double; /* MAX_EXTRA tracks each */
} PerfettoSequences;

/* Of each clock, and of each interned text. */
typedef struct {
    int64_t *multiplier, *last;
    uint8_t *is_incremental;
    uint64_t *hash;
    uint8_t *note;               /* which one a name of annotations is; a text's first byte */
} PerfettoKnown;

typedef struct {
    int64_t consumed, status, needed;
    int64_t body_at, body_size;  /* where status is PACKED, ZSTD or ATTRIBUTES */
    int64_t n_packets, n_states, n_snapshots, primary_clock;
    int64_t n_broken, first_broken;
    int64_t n_untimed, first_untimed; /* events without a time or kind */
    int64_t n_skipped, first_skipped; /* need what a lost packet had said */
    int64_t n_gaps, first_gap;
    int64_t n_left_out, first_left_out; /* events of phases that are not shown */
    int64_t n_uncounted, first_uncounted; /* values of counters without a track */
    int64_t kinds[2048];
} PerfettoTally;

/* All of it, for one call. */
typedef struct {
    const uint8_t *data;
    int64_t base;                /* offset of the block in the trace */
    int has_own;
    PerfettoRows *rows;
    PerfettoValues *values;
    PerfettoFlows *flows;
    PerfettoTracks *tracks;
    PerfettoInterned *interned;
    PerfettoSnapshots *snapshots;
    PerfettoStates *states;
    TextTable *texts;
    PerfettoNumbers *sequence_numbers, *track_numbers, *interned_numbers, *clock_numbers;
    PerfettoSequences *sequences;
    PerfettoKnown *known;
    PerfettoTally *tally;
} Scan;

typedef struct {
    uint64_t number;             /* of varints and fixed words */
    Piece bytes;
    uint32_t id;
    uint8_t wire;
} Field;

typedef struct {
    uint64_t timestamp, clock, sequence, flags;
    int has_timestamp, is_cleared, is_dropped, is_first;
    uint32_t kind;
    Piece interned, defaults, body;
} Packet;

/* ---- protobuf ---- */

/* Take a number; 0 where the bytes end before, or it has more than ten. */
static inline int varint(Piece *c, uint64_t *value)
{
    if (c->at < c->end && *c->at < 0x80) {
        *value = *c->at++;
        return 1;
    }
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && c->at < c->end; shift += 7) {
        const uint8_t byte = *c->at++;
        if (shift < 64)
            result |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = result;
            return 1;
        }
    }
    return 0;
}

/* Take a field of a message; 0 at its end, -1 where it is damaged. */
static inline int next_field(Piece *c, Field *f)
{
    uint64_t tag, length;
    if (c->at >= c->end)
        return 0;
    if (!varint(c, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF)
        return -1;
    f->id = (uint32_t)(tag >> 3);
    f->wire = (uint8_t)(tag & 7);
    f->bytes.at = f->bytes.end = c->at;
    switch (f->wire) {
    case VARINT:
        return varint(c, &f->number) ? 1 : -1;
    case FIXED64:
    case FIXED32:
        length = f->wire == FIXED64 ? 8 : 4;
        if ((uint64_t)(c->end - c->at) < length)
            return -1;
        f->number = 0;
        memcpy(&f->number, c->at, length);
        c->at += length;
        return 1;
    case BYTES:
        if (!varint(c, &length) || (uint64_t)(c->end - c->at) < length)
            return -1;
        f->number = 0;
        f->bytes.at = c->at;
        f->bytes.end = c->at += length;
        return 1;
    }
    return -1;
}

/* Whether a message is whole: every field of it ends within. */
static int is_whole(Piece c, int64_t most)
{
    Field f;
    int follows = 1;
    while (most-- > 0 && (follows = next_field(&c, &f)) == 1)
        ;
    return follows >= 0;
}

static int take_packet(Piece c, Packet *p)
{
    Field f;
    int follows;
    memset(p, 0, sizeof *p);
    while ((follows = next_field(&c, &f)) == 1) {
        switch (f.id) {
        case 3: case 79: case 98:
            break;
        case 8:
            p->timestamp = f.number;
            p->has_timestamp = f.wire != BYTES;
            break;
        case 10:
            p->sequence = f.number & UINT32_MAX;
            break;
        case INTERNED:
            if (f.wire == BYTES)
                p->interned = f.bytes;
            break;
        case 13:
            p->flags = f.number;
            break;
        case 41:
            p->is_cleared = f.number != 0;
            break;
        case 42:
            p->is_dropped = f.number != 0;
            break;
        case 58:
            p->clock = f.number & UINT32_MAX;
            break;
        case DEFAULTS:
            if (f.wire == BYTES)
                p->defaults = f.bytes;
            break;
        case 87:
            p->is_first = f.number != 0;
            break;
        default:
            if (f.wire == BYTES) {
                p->kind = f.id < N_KINDS ? f.id : N_KINDS - 1;
                p->body = f.bytes;
            }
        }
    }
    p->is_cleared |= (p->flags & CLEARED_FLAG) != 0;
    return follows == 0;
}

/* ---- small numbers ---- */

static uint64_t hash_of(Piece piece, uint64_t secret)
{
    return hashed(piece.at, piece.end - piece.at, secret);
}

/* The number of a pair, new ones from the next; the caller made sure of the room. */
static inline int32_t numbered(PerfettoNumbers *t, uint8_t space, uint64_t first,
                               uint64_t second)
{
    const uint64_t mask = (uint64_t)t->n_slots - 1;
    for (uint64_t slot = mixed(first ^ t->secret, second + space) & mask;;
         slot = (slot + 1) & mask) {
        const int32_t number = t->slots[slot] - 1;
        if (number < 0) {
            const int64_t new = t->count++;
            t->first[new] = first;
            t->second[new] = second;
            t->space[new] = space;
            t->slots[slot] = (int32_t)new + 1;
            return (int32_t)new;
        }
        if (t->first[number] == first && t->second[number] == second &&
            t->space[number] == space)
            return number;
    }
}

/* Fill the slots of a table that was made larger. */
EXPORT void ggscope_perfetto_rehash(PerfettoNumbers *t)
{
    const uint64_t mask = (uint64_t)t->n_slots - 1;
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t slot = mixed(t->first[i] ^ t->secret, t->second[i] + t->space[i]) & mask;
        while (t->slots[slot])
            slot = (slot + 1) & mask;
        t->slots[slot] = (int32_t)i + 1;
    }
}

static int32_t text_of(Scan *s, Piece piece)
{
    const int64_t n = smaller(piece.end - piece.at, LONGEST_TEXT);
    return n > 0 ? text_number(piece.at, n, s->data, s->texts) : NONE;
}

static void note(int64_t *count, int64_t *first, int64_t offset)
{
    if (!(*count)++)
        *first = offset;
}

/* ---- sequences ---- */

static void begin_state(Scan *s, int32_t sequence, int is_valid, int64_t offset)
{
    PerfettoSequences *q = s->sequences;
    const int64_t row = s->states->count++;
    q->state[sequence] = (int32_t)s->tally->n_states++;
    q->is_valid[sequence] = (uint8_t)is_valid;
    q->clock[sequence] = 0;
    q->has_track[sequence] = q->n_extra[sequence] = q->n_extra_double[sequence] = 0;
    s->states->sequence[row] = sequence;
    s->states->offset[row] = offset;
}

static int32_t sequence_of(Scan *s, const Packet *p, int64_t offset)
{
    const int64_t before = s->sequence_numbers->count;
    const int32_t sequence = numbered(s->sequence_numbers, 0, p->sequence, 0);
    if (s->sequence_numbers->count > before) {
        s->sequences->has_thread[sequence] = s->sequences->has_time[sequence] = 0;
        begin_state(s, sequence, 0, offset);
    }
    if (p->is_first)
        begin_state(s, sequence, 0, offset);
    if (p->is_cleared) {
        begin_state(s, sequence, 1, offset);
    } else if (p->is_dropped) {
        s->sequences->is_valid[sequence] = s->sequences->has_time[sequence] = 0;
    }
    if (p->is_dropped && s->sequence_numbers->count == before)
        note(&s->tally->n_gaps, &s->tally->first_gap, offset);
    return sequence;
}

/* Tracks of a repeated number, packed or not; the first of them. */
static int64_t add_tracks(Scan *s, const Field *f, int32_t *tracks, int64_t n)
{
    Piece c = f->bytes;
    uint64_t uuid = f->number;
    for (int64_t more = f->wire != BYTES || varint(&c, &uuid); more && n < MAX_EXTRA;
         more = f->wire == BYTES && varint(&c, &uuid))
        tracks[n++] = numbered(s->track_numbers, UUID, uuid, 0);
    return n;
}

static void take_defaults(Scan *s, Piece c, int32_t sequence)
{
    Field f;
    PerfettoSequences *q = s->sequences;
    int32_t *const extra = q->extra + (int64_t)sequence * MAX_EXTRA;
    int32_t *const doubles = q->extra_double + (int64_t)sequence * MAX_EXTRA;
    q->clock[sequence] = 0;
    q->has_track[sequence] = q->n_extra[sequence] = q->n_extra_double[sequence] = 0;
    while (next_field(&c, &f) == 1) {
        if (f.id == 58)
            q->clock[sequence] = (int64_t)(f.number & UINT32_MAX);
        if (f.id != 11 || f.wire != BYTES)
            continue;
        Piece inner = f.bytes;
        while (next_field(&inner, &f) == 1) {
            if (f.id == 11) {
                q->track[sequence] = f.number;
                q->has_track[sequence] = 1;
            } else if (f.id == 31) {
                q->n_extra[sequence] =
                    (uint8_t)add_tracks(s, &f, extra, q->n_extra[sequence]);
            } else if (f.id == 45) {
                q->n_extra_double[sequence] =
                    (uint8_t)add_tracks(s, &f, doubles, q->n_extra_double[sequence]);
            }
        }
    }
}

static int is_word(Piece piece, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)(piece.end - piece.at) == n && !memcmp(piece.at, word, n);
}

/* Which annotation of ggscope has this name; 0: none. */
static uint8_t note_code(Piece name)
{
    static const char *const words[] = {"layer", "token", "core", "numa", "span", "time", "op",
                                        "detail"};
    for (uint8_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(name, words[i]))
            return i + 1;
    return 0;
}

static void take_interned(Scan *s, Piece c, int32_t sequence)
{
    Field f, inner;
    const int32_t state = s->sequences->state[sequence];
    while (next_field(&c, &f) == 1) {
        static const uint8_t spaces[] = {0, CATEGORY + 1, NAME + 1, NOTE_NAME + 1};
        const uint8_t space = f.id < 4 ? spaces[f.id] : f.id == 29 ? NOTE_TEXT + 1 : 0;
        if (!space || f.wire != BYTES)
            continue;
        Piece entry = f.bytes, text = {entry.end, entry.end};
        uint64_t iid = 0;
        while (next_field(&entry, &inner) == 1) {
            if (inner.id == 1)
                iid = inner.number;
            else if (inner.id == 2 && inner.wire == BYTES)
                text = inner.bytes;
        }
        if (!iid)
            continue;
        const int32_t number =
            numbered(s->interned_numbers, space - 1, (uint64_t)state, iid);
        const int64_t row = s->interned->count++;
        const int is_shown = space - 1 < BOTH || (s->has_own && space - 1 == NOTE_TEXT);
        s->interned->number[row] = number;
        s->interned->offset[row] = s->base + (text.at - s->data);
        s->interned->length[row] = (int32_t)(text.end - text.at);
        s->interned->text[row] = is_shown ? text_of(s, text) : NONE;
        s->known->hash[number] = is_shown ? hash_of(text, s->texts->secret) : 0;
        s->known->note[number] = space - 1 == NOTE_NAME ? note_code(text)
                               : space - 1 == NOTE_TEXT && text.at < text.end ? *text.at : 0;
    }
}

/* ---- clocks ---- */

static int32_t clock_number(Scan *s, const Packet *p, uint64_t clock)
{
    const int is_local = clock >= FIRST_LOCAL && clock <= LAST_LOCAL;
    const int64_t before = s->clock_numbers->count;
    const int32_t number =
        numbered(s->clock_numbers, 0, clock, is_local ? p->sequence + 1 : 0);
    if (s->clock_numbers->count > before) {
        s->known->multiplier[number] = 1;
        s->known->last[number] = 0;
        s->known->is_incremental[number] = 0;
    }
    return number;
}

static int scaled(uint64_t value, int64_t multiplier, int64_t *ns)
{
    return value < (uint64_t)FARTHEST &&
           !__builtin_mul_overflow((int64_t)value, multiplier, ns) && *ns < FARTHEST;
}

static void take_snapshot(Scan *s, const Packet *p)
{
    Piece c = p->body;
    Field f, inner;
    const int32_t snapshot = (int32_t)s->tally->n_snapshots++;
    while (next_field(&c, &f) == 1) {
        if (f.id == 2 && f.wire == VARINT && s->tally->primary_clock < 0)
            s->tally->primary_clock = (int64_t)(f.number & UINT32_MAX);
        if (f.id != 1 || f.wire != BYTES)
            continue;
        Piece entry = f.bytes;
        uint64_t id = 0, time = 0, multiplier = 1, is_incremental = 0;
        while (next_field(&entry, &inner) == 1) {
            if (inner.id == 1)
                id = inner.number & UINT32_MAX;
            else if (inner.id == 2)
                time = inner.number;
            else if (inner.id == 3)
                is_incremental = inner.number;
            else if (inner.id == 4 && inner.number)
                multiplier = inner.number;
        }
        int64_t ns;
        if (multiplier >= (uint64_t)FARTHEST || !scaled(time, (int64_t)multiplier, &ns)) {
            note(&s->tally->n_broken, &s->tally->first_broken,
                 s->base + (f.bytes.at - s->data));
            continue;
        }
        const int32_t clock = clock_number(s, p, id);
        s->known->multiplier[clock] = (int64_t)multiplier;
        s->known->is_incremental[clock] = is_incremental != 0;
        s->known->last[clock] = ns;
        const int64_t row = s->snapshots->count++;
        s->snapshots->snapshot[row] = snapshot;
        s->snapshots->clock[row] = clock;
        s->snapshots->time[row] = ns;
    }
}

/* The time of a packet in ns of its clock; 0 where it has none. */
static int time_of(Scan *s, const Packet *p, int32_t sequence, int32_t *clock,
                   int64_t *time)
{
    if (!p->has_timestamp)
        return 0;
    const uint64_t id = p->clock ? p->clock : (uint64_t)s->sequences->clock[sequence];
    *clock = clock_number(s, p, id);
    PerfettoKnown *known = s->known;
    if (!scaled(p->timestamp, known->multiplier[*clock], time))
        return 0;
    if (known->is_incremental[*clock]) {
        *time += known->last[*clock];
        if (*time >= FARTHEST)
            return 0;
        known->last[*clock] = *time;
    }
    return 1;
}

/* ---- descriptions ---- */

static int64_t new_track_row(Scan *s, int32_t track)
{
    PerfettoTracks *t = s->tracks;
    const int64_t row = t->count++;
    t->track[row] = track;
    t->parent[row] = t->name[row] = t->process[row] = t->thread[row] = NONE;
    t->unit[row] = t->merge_key[row] = NONE;
    t->pid[row] = t->tid[row] = t->multiplier[row] = t->rank[row] = 0;
    t->flags[row] = t->unit_code[row] = t->ordering[row] = 0;
    return row;
}

static int32_t thread_track(Scan *s, int64_t pid, int64_t tid)
{
    return numbered(s->track_numbers, THREAD_ID, (uint64_t)pid, (uint64_t)tid);
}

static void take_process(Scan *s, Piece c, int64_t row)
{
    Field f;
    PerfettoTracks *t = s->tracks;
    t->flags[row] |= PROCESS;
    int32_t first_word = NONE;
    while (next_field(&c, &f) == 1) {
        if (f.id == 1)
            t->pid[row] = (int32_t)f.number;
        else if (f.id == 6 && f.wire == BYTES)
            t->process[row] = text_of(s, f.bytes);
        else if (f.id == 2 && f.wire == BYTES && first_word < 0)
            first_word = text_of(s, f.bytes);
    }
    if (t->process[row] < 0)
        t->process[row] = first_word;
}

static void take_thread(Scan *s, Piece c, int64_t row, int32_t sequence)
{
    Field f;
    PerfettoTracks *t = s->tracks;
    PerfettoSequences *q = s->sequences;
    uint64_t reference = 0;
    t->flags[row] |= THREAD;
    while (next_field(&c, &f) == 1) {
        if (f.id == 1)
            t->pid[row] = (int32_t)f.number;
        else if (f.id == 2)
            t->tid[row] = (int64_t)f.number;
        else if (f.id == 3)
            t->rank[row] = (int32_t)f.number;
        else if (f.id == 5 && f.wire == BYTES)
            t->thread[row] = text_of(s, f.bytes);
        else if (f.id == 6)
            reference = f.number;
    }
    if (!q->is_valid[sequence])
        return;
    q->has_thread[sequence] = 1;
    q->pid[sequence] = t->pid[row];
    q->tid[sequence] = t->tid[row];
    q->has_time[sequence] = (uint8_t)scaled(reference, 1000, &q->time[sequence]);
}

static void take_counter(Scan *s, Piece c, int64_t row)
{
    Field f;
    PerfettoTracks *t = s->tracks;
    t->flags[row] |= COUNTER;
    while (next_field(&c, &f) == 1) {
        if (f.id == 1 && f.number && f.wire == VARINT)
            t->unit_code[row] = (uint8_t)(16 + (f.number & 15));
        else if (f.id == 3 && !t->unit_code[row])
            t->unit_code[row] = (uint8_t)(f.number & 15);
        else if (f.id == 4)
            t->multiplier[row] = (int64_t)f.number;
        else if (f.id == 5 && f.number)
            t->flags[row] |= INCREMENTAL;
        else if (f.id == 6 && f.wire == BYTES)
            t->unit[row] = text_of(s, f.bytes);
    }
}

static void take_track(Scan *s, const Packet *p, int32_t sequence)
{
    Piece c = p->body;
    Field f;
    uint64_t uuid = 0;
    while (next_field(&c, &f) == 1)
        if (f.id == 1 && f.wire == VARINT)
            uuid = f.number;
    const int64_t row =
        new_track_row(s, numbered(s->track_numbers, UUID, uuid, 0));
    PerfettoTracks *t = s->tracks;
    c = p->body;
    while (next_field(&c, &f) == 1) {
        switch (f.id) {
        case 2: case 10: case 13:
            if (f.wire == BYTES)
                t->name[row] = text_of(s, f.bytes);
            break;
        case 3:
            if (f.wire == BYTES)
                take_process(s, f.bytes, row);
            break;
        case 4:
            if (f.wire == BYTES)
                take_thread(s, f.bytes, row, sequence);
            break;
        case 5:
            if (f.number)
                t->parent[row] = numbered(s->track_numbers, UUID, f.number, 0);
            break;
        case 8:
            if (f.wire == BYTES)
                take_counter(s, f.bytes, row);
            break;
        case 9:
            t->flags[row] |= f.number ? SEPARATE : 0;
            break;
        case 11:
            t->ordering[row] = (uint8_t)(f.number & 3);
            break;
        case 12:
            t->rank[row] = (int32_t)f.number;
            break;
        case 15:
            t->flags[row] |= f.number == 2 ? APART : 0;
            break;
        case 16:
            if (f.wire == BYTES)
                t->merge_key[row] = text_of(s, f.bytes);
            break;
        }
    }
}

/* Processes and threads as the kernel lists them. */
static void take_process_tree(Scan *s, Piece c)
{
    Field f, inner;
    PerfettoTracks *t = s->tracks;
    while (next_field(&c, &f) == 1) {
        if ((f.id != 1 && f.id != 2) || f.wire != BYTES)
            continue;
        Piece entry = f.bytes, name = {NULL, NULL};
        int64_t id = 0, group = 0;
        while (next_field(&entry, &inner) == 1) {
            const uint32_t text = f.id == 1 ? 3 : 2;
            if (inner.id == 1)
                id = (int32_t)inner.number;
            else if (inner.id == text && inner.wire == BYTES && !name.at)
                name = inner.bytes;
            else if (inner.id == 3 && f.id == 2)
                group = (int32_t)inner.number;
        }
        const int is_thread = f.id == 2;
        const int64_t row = new_track_row(
            s, is_thread ? thread_track(s, group, id)
                         : numbered(s->track_numbers, PROCESS_ID, (uint64_t)id, 0));
        t->flags[row] = LISTED | (is_thread ? THREAD : PROCESS);
        t->pid[row] = is_thread ? group : id;
        t->tid[row] = is_thread ? id : 0;
        *(is_thread ? &t->thread[row] : &t->process[row]) = text_of(s, name);
    }
}

/* ---- events ---- */

typedef struct {
    uint64_t type, name_iid, uuid, flow_id, id, extra_ids;
    int64_t counter, time, duration;
    double real;
    Piece name, categories, scope;
    int32_t category, phase, pid, tid;
    uint8_t has_track, has_type, has_counter, has_real, has_delta, has_absolute, has_duration;
    uint8_t has_id, is_local, has_pid, has_tid, direction, instant_scope, n_extra;
    uint8_t is_bound; /* a flow to the span around it, not to the next one */
    uint8_t n_extra_double, n_values, n_reals;
    uint8_t quality;
    int32_t columns[5], word;
    int32_t extra[MAX_EXTRA], extra_double[MAX_EXTRA];
    int64_t values[MAX_EXTRA];
    double reals[MAX_EXTRA];
} Event;

static void take_legacy(Piece c, Event *e)
{
    Field f;
    while (next_field(&c, &f) == 1) {
        switch (f.id) {
        case 1:
            if (!e->name_iid)
                e->name_iid = f.number;
            break;
        case 2:
            e->phase = (int32_t)f.number;
            break;
        case 3:
            e->has_duration = 1;
            e->duration = (int64_t)f.number;
            break;
        case 6: case 10: case 11:
            e->has_id = 1;
            e->is_local = f.id == 10;
            e->id = f.number;
            break;
        case 7:
            if (f.wire == BYTES)
                e->scope = f.bytes;
            break;
        case 8:
            e->flow_id = f.number;
            break;
        case 12:
            e->is_bound = f.number != 0;
            break;
        case 13:
            e->direction = (uint8_t)(f.number & 3);
            break;
        case 14:
            e->instant_scope = (uint8_t)(f.number & 3);
            break;
        case 18:
            e->has_pid = 1;
            e->pid = (int32_t)f.number;
            break;
        case 19:
            e->has_tid = 1;
            e->tid = (int32_t)f.number;
            break;
        }
    }
}

/* The number of a text of the block among those that are interned. */
static int32_t interned_text(Scan *s, int32_t text)
{
    const uint8_t *const at = s->data + s->texts->offset[text];
    const uint64_t hash = hash_of((Piece){at, at + s->texts->length[text]}, s->texts->secret);
    const int32_t number = numbered(s->interned_numbers, CATEGORY, UINT64_MAX, hash);
    const int64_t row = s->interned->count++;
    s->interned->number[row] = number;
    s->interned->offset[row] = s->base + s->texts->offset[text];
    s->interned->length[row] = s->texts->length[text];
    s->interned->text[row] = text;
    s->known->hash[number] = hash;
    s->known->note[number] = 0;
    return number;
}

/* Categories become one, of all of them in their order. `more`: as in rows. */
static void add_category(Scan *s, Event *e, int32_t more)
{
    if (e->category == NONE || more == NONE) {
        e->category = more == NONE ? e->category : more;
        return;
    }
    const int32_t one = e->category >= 0 ? interned_text(s, e->category) : -2 - e->category;
    const int32_t other = more >= 0 ? interned_text(s, more) : -2 - more;
    const int32_t both =
        numbered(s->interned_numbers, BOTH, (uint64_t)one, (uint64_t)other);
    s->known->hash[both] = mixed(s->known->hash[one], s->known->hash[other]);
    s->known->note[both] = 0;
    e->category = -2 - both;
}

/* An annotation of a file that ggscope wrote. */
static void take_note(Scan *s, int32_t state, Piece c, Event *e)
{
    Field f;
    uint64_t iid = 0, value = 0, text_iid = 0;
    Piece name = {NULL, NULL}, text = {NULL, NULL};
    while (next_field(&c, &f) == 1) {
        if (f.id == 1)
            iid = f.number;
        else if (f.id == 3 || f.id == 4)
            value = f.number;
        else if (f.id == 6 && f.wire == BYTES)
            text = f.bytes;
        else if (f.id == 10 && f.wire == BYTES)
            name = f.bytes;
        else if (f.id == 17)
            text_iid = f.number;
    }
    uint8_t code = name.at ? note_code(name) : 0;
    if (iid)
        code = s->known->note[numbered(s->interned_numbers, NOTE_NAME, (uint64_t)state, iid)];
    if (code >= 1 && code <= OF_SPAN) {
        if (value <= INT32_MAX)
            e->columns[code - 1] = (int32_t)value;
        return;
    }
    const int32_t text_id = text_iid
        ? numbered(s->interned_numbers, NOTE_TEXT, (uint64_t)state, text_iid) : NONE;
    if (code == OF_TIME)
        e->quality = text_id >= 0 ? s->known->note[text_id] : text.at < text.end ? *text.at : 0;
    else if (code == OF_OP || code == OF_DETAIL)
        e->word = text_id >= 0 ? -2 - text_id : text_of(s, text);
}

static void add_values(const Field *f, Event *e)
{
    Piece c = f->bytes;
    uint64_t number = f->number;
    for (int more = f->wire != BYTES || varint(&c, &number); more && e->n_values < MAX_EXTRA;
         more = f->wire == BYTES && varint(&c, &number))
        e->values[e->n_values++] = (int64_t)number;
}

static void add_reals(const Field *f, Event *e)
{
    if (f->wire == FIXED64 && e->n_reals < MAX_EXTRA)
        memcpy(&e->reals[e->n_reals++], &f->number, 8);
    for (const uint8_t *p = f->bytes.at; f->wire == BYTES && f->bytes.end - p >= 8 &&
         e->n_reals < MAX_EXTRA; p += 8)
        memcpy(&e->reals[e->n_reals++], p, 8);
}

/* Take the fields that are shown, but for flows. */
static int take_event(Scan *s, Piece c, int32_t sequence, Event *e)
{
    Field f;
    int follows;
    const int32_t state = s->sequences->state[sequence];
    memset(e, 0, sizeof *e);
    e->category = NONE;
    for (int i = 0; i < OF_SPAN; i++)
        e->columns[i] = NONE;
    e->word = NONE;
    while ((follows = next_field(&c, &f)) == 1) {
        switch (f.id) {
        case 1:
            e->has_delta = 1;
            e->time = (int64_t)f.number;
            break;
        case 3:
            if (f.wire == VARINT)
                add_category(s, e, -2 - numbered(s->interned_numbers, CATEGORY,
                                                 (uint64_t)state, f.number));
            break;
        case 4:
            if (s->has_own && f.wire == BYTES)
                take_note(s, state, f.bytes, e);
            break;
        case 6:
            if (f.wire == BYTES)
                take_legacy(f.bytes, e);
            break;
        case 9:
            e->has_type = 1;
            e->type = f.number;
            break;
        case 10:
            e->name_iid = f.number;
            break;
        case 11:
            e->has_track = 1;
            e->uuid = f.number;
            break;
        case 12:
            add_values(&f, e);
            break;
        case 16:
            if (!e->has_delta && f.number) {
                e->has_absolute = 1;
                e->time = (int64_t)f.number;
            }
            break;
        case 22:
            if (f.wire == BYTES)
                add_category(s, e, text_of(s, f.bytes));
            break;
        case 23:
            if (f.wire == BYTES)
                e->name = f.bytes;
            break;
        case 30:
            e->has_counter = 1;
            e->counter = (int64_t)f.number;
            break;
        case 31:
            e->n_extra = (uint8_t)add_tracks(s, &f, e->extra, e->n_extra);
            break;
        case 44:
            e->has_real = f.wire == FIXED64;
            memcpy(&e->real, &f.number, 8);
            break;
        case 45:
            e->n_extra_double =
                (uint8_t)add_tracks(s, &f, e->extra_double, e->n_extra_double);
            break;
        case 46:
            add_reals(&f, e);
            break;
        }
    }
    return follows == 0;
}

/* Whether the event has a time: its own, else that of the packet. */
static int time_of_event(Scan *s, const Packet *p, int32_t sequence, const Event *e,
                         int has_time, int32_t *clock, int64_t *time)
{
    PerfettoSequences *q = s->sequences;
    if (!e->has_delta && !e->has_absolute)
        return has_time;
    if (e->time < -FARTHEST / 1000 || e->time > FARTHEST / 1000)
        return 0;
    *time = e->time * 1000;
    if (e->has_delta) {
        if (!q->has_time[sequence])
            return 0;
        q->time[sequence] = *time += q->time[sequence];
    }
    if (*time < 0 || *time >= FARTHEST) {
        q->has_time[sequence] = 0;
        return 0;
    }
    *clock = clock_number(s, p, MONOTONIC);
    return 1;
}

static int32_t track_of(Scan *s, int32_t sequence, const Event *e)
{
    const PerfettoSequences *q = s->sequences;
    const uint64_t uuid = e->has_track ? e->uuid : q->has_track[sequence] ? q->track[sequence] : 0;
    const int has_thread = q->has_thread[sequence];
    if (uuid)
        return numbered(s->track_numbers, UUID, uuid, 0);
    if (e->has_pid)
        return thread_track(s, e->pid, e->has_tid ? e->tid : NONE);
    if (has_thread && (!e->has_track || !e->has_type || e->has_tid))
        return thread_track(s, q->pid[sequence], e->has_tid ? e->tid : q->tid[sequence]);
    return numbered(s->track_numbers, UUID, 0, 0);
}

/* The hash of a name or category of an event. */
static uint64_t hash_of_text(const Scan *s, int32_t text)
{
    if (text <= -2)
        return s->known->hash[-2 - text];
    if (text == NONE)
        return s->texts->secret;
    const uint8_t *const at = s->data + s->texts->offset[text];
    return hash_of((Piece){at, at + s->texts->length[text]}, s->texts->secret);
}

/* The track of an activity with an id of its own; what is around it is its parent. */
static int32_t activity_of(Scan *s, const Event *e, int32_t around, int32_t name, int64_t pid)
{
    const int by_name = e->phase == 'S' || e->phase == 'T' || e->phase == 'p' || e->phase == 'F';
    uint64_t scope = hash_of_text(s, by_name && !e->scope.at ? name : e->category);
    if (e->scope.at)
        scope = mixed(scope, hash_of(e->scope, 0));
    if (e->is_local)
        scope = mixed(scope, (uint64_t)pid);
    const int64_t before = s->track_numbers->count;
    const int32_t track = numbered(s->track_numbers, ACTIVITY, e->id, scope);
    if (s->track_numbers->count > before) {
        const int64_t row = new_track_row(s, track);
        s->tracks->parent[row] = around;
        s->tracks->flags[row] = BESIDE;
        s->tracks->name[row] = name;
    }
    return track;
}

static void add_value(Scan *s, int32_t track, int64_t time, int32_t clock, int32_t state,
                      double value)
{
    PerfettoValues *v = s->values;
    const int64_t row = v->count++;
    v->time[row] = time;
    v->clock[row] = clock;
    v->track[row] = track;
    v->state[row] = state;
    v->value[row] = value;
}

static void add_flow(Scan *s, int64_t row, uint64_t id, int role)
{
    PerfettoFlows *f = s->flows;
    const int64_t at = f->count++;
    f->row[at] = (int32_t)row;
    f->id[at] = id;
    f->role[at] = (uint8_t)role;
}

/* A flow of old form: one of its id is another under another name or category. */
static void add_old_flow(Scan *s, const Event *e, int64_t row, int32_t name, int64_t pid)
{
    uint64_t id = mixed(hash_of_text(s, e->category), hash_of_text(s, name));
    if (e->scope.at)
        id = mixed(id, hash_of(e->scope, 0));
    if (e->is_local)
        id = mixed(id, (uint64_t)pid);
    add_flow(s, row, mixed(id, e->id),
             e->phase == 's' ? FLOW_OUT : e->phase == 't' ? FLOW_THROUGH : FLOW_IN);
}

static void add_flows(Scan *s, Piece c, int64_t row)
{
    Field f;
    while (next_field(&c, &f) == 1) {
        int role;
        if (f.id == 36 || f.id == 47)
            role = FLOW;
        else if (f.id == 42 || f.id == 48)
            role = LAST_FLOW;
        else
            continue;
        const int is_fixed = f.id >= 47;
        if (f.wire != BYTES) {
            add_flow(s, row, f.number, role);
            continue;
        }
        Piece list = f.bytes;
        uint64_t id;
        while (is_fixed ? list.end - list.at >= 8 : varint(&list, &id)) {
            if (is_fixed) {
                memcpy(&id, list.at, 8);
                list.at += 8;
            }
            add_flow(s, row, id, role);
        }
    }
}

static int is_one_of(int32_t phase, const char *phases)
{
    return phase > 0 && phase < 128 && strchr(phases, phase) != NULL;
}

static void add_event(Scan *s, const Packet *p, int32_t sequence, int has_time,
                      int32_t clock, int64_t time, int64_t offset)
{
    Event e;
    PerfettoTally *tally = s->tally;
    const PerfettoSequences *q = s->sequences;
    const int32_t state = q->state[sequence];
    if (!take_event(s, p->body, sequence, &e)) {
        note(&tally->n_broken, &tally->first_broken, offset);
        return;
    }
    if (!time_of_event(s, p, sequence, &e, has_time, &clock, &time)) {
        note(&tally->n_untimed, &tally->first_untimed, offset);
        return;
    }
    static const char types[] = {0, 'B', 'E', 'i', 'C', STATE};
    if (e.phase == STATE)
        e.phase = '?';
    if (!e.phase && e.type < sizeof types)
        e.phase = types[e.type];
    /* Values of further counters. */
    const int32_t *extra = e.n_extra ? e.extra : q->extra + (int64_t)sequence * MAX_EXTRA;
    const int32_t *doubles =
        e.n_extra_double ? e.extra_double : q->extra_double + (int64_t)sequence * MAX_EXTRA;
    const int n_extra = e.n_extra ? e.n_extra : q->n_extra[sequence];
    const int n_doubles = e.n_extra_double ? e.n_extra_double : q->n_extra_double[sequence];
    for (int i = 0; i < e.n_values && i < n_extra; i++)
        add_value(s, extra[i], time, clock, state, (double)e.values[i]);
    for (int i = 0; i < e.n_reals && i < n_doubles; i++)
        add_value(s, doubles[i], time, clock, state, e.reals[i]);
    if (e.n_values > n_extra || e.n_reals > n_doubles)
        note(&tally->n_uncounted, &tally->first_uncounted, offset);
    if (e.type == 4) {
        if ((!e.has_track && !q->has_track[sequence]) || (!e.has_counter && !e.has_real)) {
            note(&tally->n_uncounted, &tally->first_uncounted, offset);
            return;
        }
        add_value(s, track_of(s, sequence, &e), time, clock, state,
                  e.has_counter ? (double)e.counter : e.real);
        return;
    }
    if (!e.phase) {
        note(&tally->n_untimed, &tally->first_untimed, offset);
        return;
    }
    if (!is_one_of(e.phase, "BEXiIRbenSTpFstfZ")) {
        note(&tally->n_left_out, &tally->first_left_out, offset);
        return;
    }
    const int32_t name = e.name_iid
        ? -2 - numbered(s->interned_numbers, NAME, (uint64_t)state, e.name_iid)
        : text_of(s, e.name);
    int32_t track = track_of(s, sequence, &e);
    const int64_t pid = e.has_pid ? e.pid : q->pid[sequence];
    if (is_one_of(e.phase, "benSTpFstf") && !e.has_id) {
        note(&tally->n_untimed, &tally->first_untimed, offset);
        return;
    }
    if (is_one_of(e.phase, "benSTpF"))
        track = activity_of(s, &e, track, name, pid);
    PerfettoRows *r = s->rows;
    const int64_t row = r->count++;
    int64_t duration = 0;
    uint8_t flags = 0;
    if (e.phase == 'X' && (!e.has_duration || e.duration < 0 || e.duration > FARTHEST / 1000))
        flags |= NEGATIVE;
    else if (e.phase == 'X')
        duration = e.duration * 1000;
    if (is_one_of(e.phase, "iI"))
        flags |= e.instant_scope == 1 ? OF_ALL : e.instant_scope == 2 ? OF_PROCESS : 0;
    if (e.phase == 'f' && !e.is_bound)
        flags |= TO_NEXT;
    r->offset[row] = offset;
    r->time[row] = time;
    r->duration[row] = duration;
    r->clock[row] = clock;
    r->track[row] = track;
    r->name[row] = name;
    r->category[row] = e.category;
    r->phase[row] = (uint8_t)e.phase;
    r->flags[row] = flags;
    if (s->has_own) {
        r->layer[row] = e.columns[0];
        r->token[row] = e.columns[1];
        r->core[row] = e.columns[2];
        r->numa[row] = e.columns[3];
        r->span[row] = e.columns[4];
        r->word[row] = e.word;
        r->quality[row] = e.quality;
    }
    add_flows(s, p->body, row);
    static const uint8_t roles[] = {0, FLOW_IN, FLOW_OUT, FLOW_THROUGH};
    if (is_one_of(e.phase, "stf"))
        add_old_flow(s, &e, row, name, pid);
    if (e.direction && e.flow_id)
        add_flow(s, row, e.flow_id, roles[e.direction]);
}

/* ---- packets ---- */

/* How many rows a packet may add to any table, at most. */
static int64_t items_of(const Packet *p)
{
    Field f;
    int64_t n = SPARE;
    const Piece bodies[] = {p->interned, p->defaults, p->body};
    const int is_list = p->kind == TRACK_EVENT || p->kind == CLOCK_SNAPSHOT ||
                        p->kind == PROCESS_TREE;
    const int is_description = p->kind == TRACK_DESCRIPTOR || p->kind == THREAD_DESCRIPTOR ||
                               p->kind == PROCESS_DESCRIPTOR;
    for (int i = 0; i < 2 + is_list; i++) {
        Piece c = bodies[i];
        if (c.end - c.at < 256) {
            n += c.end - c.at;
            continue;
        }
        while (n < MAX_ITEMS && next_field(&c, &f) == 1) {
            n += i == 2 ? 4 : 1;
            if (f.wire == BYTES && (f.id == 36 || f.id == 42 || f.id == 47 || f.id == 48))
                n += f.bytes.end - f.bytes.at;
        }
    }
    if (is_description) /* a text takes two bytes, at least */
        n += (p->body.end - p->body.at) / 2;
    return n;
}

#define LACKS(table) ((table)->count + needed > (table)->capacity)

/* Whether there is room for a packet; else why not. */
static int64_t room_for(Scan *s, int64_t needed)
{
    if (LACKS(s->sequence_numbers) || LACKS(s->track_numbers) ||
        LACKS(s->interned_numbers) || LACKS(s->clock_numbers))
        return GROW;
    if (!LACKS(s->rows) && !LACKS(s->values) && !LACKS(s->flows) && !LACKS(s->tracks) &&
        !LACKS(s->interned) && !LACKS(s->snapshots) && !LACKS(s->states) &&
        !LACKS(s->texts))
        return MORE;
    return needed > s->rows->capacity ? GROW : FULL;
}

static void add_packet(Scan *s, const Packet *p, int64_t offset)
{
    PerfettoTally *tally = s->tally;
    tally->kinds[p->kind ? p->kind : p->interned.at ? INTERNED : p->defaults.at ? DEFAULTS : 0]++;
    tally->n_packets++;
    const int32_t sequence = sequence_of(s, p, offset);
    if (p->defaults.at)
        take_defaults(s, p->defaults, sequence);
    if (p->interned.at)
        take_interned(s, p->interned, sequence);
    if (p->kind == CLOCK_SNAPSHOT) {
        take_snapshot(s, p);
        return;
    }
    if (p->kind == SERVICE_EVENT)
        return;
    if ((p->flags & NEEDED_FLAG) && !s->sequences->is_valid[sequence]) {
        if (p->kind == TRACK_EVENT)
            note(&tally->n_skipped, &tally->first_skipped, offset);
        return;
    }
    int32_t clock = 0;
    int64_t time = 0, row;
    const int has_time = time_of(s, p, sequence, &clock, &time);
    switch (p->kind) {
    case TRACK_EVENT:
        add_event(s, p, sequence, has_time, clock, time, offset);
        break;
    case TRACK_DESCRIPTOR:
        take_track(s, p, sequence);
        break;
    case THREAD_DESCRIPTOR:
        row = new_track_row(s, 0);
        take_thread(s, p->body, row, sequence);
        s->tracks->track[row] = thread_track(s, s->tracks->pid[row], s->tracks->tid[row]);
        break;
    case PROCESS_DESCRIPTOR:
        row = new_track_row(s, 0);
        take_process(s, p->body, row);
        s->tracks->track[row] =
            numbered(s->track_numbers, PROCESS_ID, (uint64_t)s->tracks->pid[row], 0);
        break;
    case PROCESS_TREE:
        take_process_tree(s, p->body);
        break;
    }
}

/* Where the next packet may begin behind damage; the end where none does. */
static const uint8_t *next_packet(const uint8_t *at, const uint8_t *end)
{
    for (; at < end && (at = memchr(at, 0x0A, (size_t)(end - at))) != NULL; at++) {
        Piece c = {at + 1, end};
        uint64_t length;
        if (!varint(&c, &length) || !length || length > RESYNC_BYTES ||
            length > (uint64_t)(end - c.at))
            continue;
        const uint8_t *const behind = c.at + length;
        if ((behind == end || *behind == 0x0A) &&
            is_whole((Piece){c.at, behind}, RESYNC_FIELDS))
            return at;
    }
    return end;
}

/* Read packets from a place in a block, which begins at `base` of the trace. */
EXPORT void ggscope_perfetto_scan(
    const uint8_t *data, int64_t size, int64_t at, int64_t base, int64_t has_own,
    PerfettoRows *rows, PerfettoValues *values, PerfettoFlows *flows,
    PerfettoTracks *tracks, PerfettoInterned *interned, PerfettoSnapshots *snapshots,
    PerfettoStates *states, TextTable *texts, PerfettoNumbers *sequence_numbers,
    PerfettoNumbers *track_numbers, PerfettoNumbers *interned_numbers,
    PerfettoNumbers *clock_numbers, PerfettoSequences *sequences, PerfettoKnown *known,
    PerfettoTally *tally)
{
    Scan s = {data, base, (int)has_own, rows, values, flows, tracks, interned,
              snapshots, states, texts, sequence_numbers, track_numbers, interned_numbers,
              clock_numbers, sequences, known, tally};
    const uint8_t *const end = data + size;
    const uint8_t *begin = data + at;
    tally->status = MORE;
    while (begin < end) {
        Piece c = {begin, end};
        uint64_t tag, length = 0;
        Packet p;
        const int64_t offset = base + (begin - data);
        const int has_head = varint(&c, &tag) && varint(&c, &length);
        const int is_sound = has_head && (tag & 7) == BYTES && tag >> 3 &&
                             length <= LONGEST_PACKET;
        if ((!has_head && c.at >= end && end - begin < 20) ||
            (is_sound && length > (uint64_t)(end - c.at)))
            break; /* more may come; at the end of the file it is cut */
        if (is_sound && tag >> 3 != 1) { /* another field of the trace */
            begin = c.at + length;
            continue;
        }
        if (is_sound) {
            const uint8_t *const behind = c.at + length;
            if (take_packet((Piece){c.at, behind}, &p)) {
                tally->body_at = p.body.at - data;
                tally->body_size = p.body.end - p.body.at;
                if (p.kind == COMPRESSED || p.kind == ZSTD_COMPRESSED) {
                    tally->kinds[p.kind]++;
                    tally->n_packets++;
                    tally->status = p.kind == COMPRESSED ? PACKED : ZSTD;
                    begin = behind;
                    break;
                }
                const int64_t needed = items_of(&p);
                if (needed < MAX_ITEMS) {
                    tally->status = room_for(&s, needed);
                    if (tally->status != MORE) {
                        tally->needed = needed;
                        break;
                    }
                    add_packet(&s, &p, offset);
                    begin = behind;
                    if (p.kind == TRACE_ATTRIBUTES) {
                        tally->status = ATTRIBUTES;
                        break;
                    }
                    continue;
                }
            }
            note(&tally->n_broken, &tally->first_broken, offset);
            if (behind == end || *behind == 0x0A) {
                begin = behind;
                continue;
            }
        } else {
            note(&tally->n_broken, &tally->first_broken, offset);
        }
        begin = next_packet(begin + 1, end);
    }
    tally->consumed = begin - data;
}
