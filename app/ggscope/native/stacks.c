/* Sampled stacks from text: perf script and folded lines into rows, and every different
 * stack as a node of one tree.
 *
 * A node is a pair of its parent and a frame, a frame a pair of the texts of its name and
 * of what it is part of. Tables are the caller's, who makes them larger where a scan ends
 * for want of room; a sample is put whole or not at all. Nothing here allocates or keeps
 * state.
 */
#define _GNU_SOURCE
#include <string.h>

#include "native.h"
#include "text_arena.h"

/* readers/common/stack_text.py: Status; MAX_FRAMES */
enum { MORE, FULL_ROWS, FULL_TABLES };
enum { MAX_FRAMES = 2048, LONGEST_TEXT = 4096, DIGITS = 18 };
#define NO_TIME INT64_MIN

typedef struct {
    const uint8_t *at, *end;
} Piece;

/* Every pair once. */
typedef struct {
    int64_t count, capacity, n_slots; /* a power of two, more than `capacity` */
    int32_t *slots;              /* number + 1; 0 = free */
    int32_t *first, *second;
} StackPairs;

/* One row per sample. */
typedef struct {
    int64_t capacity, count;
    int64_t *offset;             /* of its first line in the block */
    int64_t *time;               /* ns; NO_TIME; of folded lines billionths of the weight */
    int64_t *period;             /* as written, -1: none; of folded lines the weight */
    int32_t *comm, *event;       /* numbers of texts */
    int32_t *pid, *tid, *cpu;    /* -1: none */
    int32_t *node;               /* -1: no stack */
} StackRows;

typedef struct {
    int64_t consumed, status;
    int64_t n_other, first_other; /* lines that state nothing; in the block, -1: none */
    int64_t n_deep, first_deep;  /* samples with more frames than are kept */
    int64_t n_negative, first_negative; /* weights below zero */
} StackTally;

/* Frames that are open between samples, outermost first. */
typedef struct {
    int64_t count;               /* spans so far */
    int64_t depth;               /* how many frames are open */
    int32_t *node;               /* MAX_FRAMES */
    int64_t *span;
} StackWalk;

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline int is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }
static inline int is_hex(uint8_t c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static Piece trimmed(Piece p)
{
    while (p.at < p.end && is_blank(*p.at))
        p.at++;
    while (p.at < p.end && is_blank(p.end[-1]))
        p.end--;
    return p;
}

/* ---- tables ---- */

static inline uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t hash = (a << 32 | b) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 29;
}

static int32_t pair_of(StackPairs *pairs, int32_t first, int32_t second)
{
    const uint64_t mask = (uint64_t)pairs->n_slots - 1;
    uint64_t slot = mixed((uint32_t)first, (uint32_t)second) & mask;
    for (;; slot = (slot + 1) & mask) {
        const int32_t known = pairs->slots[slot] - 1;
        if (known < 0) {
            if (pairs->count >= pairs->capacity)
                return -1; /* never: there is room for a sample before each */
            const int64_t new = pairs->count++;
            pairs->slots[slot] = (int32_t)new + 1;
            pairs->first[new] = first;
            pairs->second[new] = second;
            return (int32_t)new;
        }
        if (pairs->first[known] == first && pairs->second[known] == second)
            return known;
    }
}

static int32_t text_of(TextArena *texts, Piece piece)
{
    return copied_text(texts, piece.at, smaller(piece.end - piece.at, LONGEST_TEXT));
}

static int has_room(const TextArena *texts, const StackPairs *frames)
{
    return texts->capacity - texts->count >= 4 &&
        texts->size - texts->used >= 4 * LONGEST_TEXT && frames->capacity > frames->count;
}

/* The node of a stack whose frames stand leaf first; -1 for none. */
static int32_t node_of(StackPairs *nodes, const int32_t *frames, int64_t n)
{
    int32_t node = -1;
    while (n--)
        node = pair_of(nodes, node, frames[n]);
    return node;
}

/* Fill the slots anew, which are twice as many now. */
EXPORT void ggscope_stacks_rehash_pairs(StackPairs *pairs)
{
    const uint64_t mask = (uint64_t)pairs->n_slots - 1;
    for (int64_t i = 0; i < pairs->count; i++) {
        uint64_t slot = mixed((uint32_t)pairs->first[i], (uint32_t)pairs->second[i]) & mask;
        while (pairs->slots[slot])
            slot = (slot + 1) & mask;
        pairs->slots[slot] = (int32_t)i + 1;
    }
}

EXPORT void ggscope_stacks_rehash_texts(TextArena *texts)
{
    const uint64_t mask = (uint64_t)texts->n_slots - 1;
    for (int64_t i = 0; i < texts->count; i++) {
        uint64_t slot = arena_hash(texts->arena + texts->offset[i], texts->length[i],
                                   texts->secret) & mask;
        while (texts->slots[slot])
            slot = (slot + 1) & mask;
        texts->slots[slot] = (int32_t)i + 1;
    }
}

/* Put stacks into the tree: `frames` of each from `first`, leaf first.
 * Returns how many were put; the others had no room. */
EXPORT int64_t ggscope_stacks_put(StackPairs *nodes, const int32_t *frames,
                                  const int64_t *first, int64_t n, int32_t *node)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t depth = first[i + 1] - first[i];
        if (nodes->capacity - nodes->count < depth)
            return i;
        node[i] = node_of(nodes, frames + first[i], depth);
    }
    return n;
}

/* ---- spans ---- */

/* The nodes of a stack, outermost first; returns how many. */
static int64_t path_of(const int32_t *parent, int32_t node, int32_t *path)
{
    int64_t depth = 0;
    for (int32_t at = node; at >= 0; at = parent[at])
        depth++;
    for (; depth > MAX_FRAMES; depth--)
        node = parent[node];
    for (int64_t i = depth; i-- > 0; node = parent[node])
        path[i] = node;
    return depth;
}

/* Go on with samples `from` to `to`: a span for each frame that goes on through samples
 * that touch, in the order of their first sample, outer ones first. Without `first` they
 * are only counted. Of the MAX_FRAMES that may be open `node` and `span` are kept from
 * one call to the next. */
EXPORT void ggscope_stacks_spans(const int32_t *parent, const int32_t *node_of_sample,
                                 const uint8_t *touches, int64_t from, int64_t to,
                                 StackWalk *walk, int32_t *first, int32_t *last,
                                 int32_t *node)
{
    int32_t path[MAX_FRAMES];
    for (int64_t i = from; i < to; i++) {
        const int64_t depth = path_of(parent, node_of_sample[i], path);
        int64_t same = 0;
        if (touches[i])
            while (same < depth && same < walk->depth && walk->node[same] == path[same])
                same++;
        if (first != NULL)
            for (int64_t k = same; k < walk->depth; k++)
                last[walk->span[k]] = (int32_t)(i - 1);
        for (int64_t k = same; k < depth; k++) {
            walk->node[k] = path[k];
            walk->span[k] = walk->count;
            if (first != NULL) {
                first[walk->count] = (int32_t)i;
                node[walk->count] = path[k];
            }
            walk->count++;
        }
        walk->depth = depth;
    }
    if (first != NULL)
        for (int64_t k = 0; k < walk->depth; k++)
            last[walk->span[k]] = (int32_t)(to - 1);
}

/* ---- numbers ---- */

/* Whole digits; where they end, NULL without any or beyond 18. */
static const uint8_t *whole(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    const uint8_t *p = at;
    for (*value = 0; p < end && is_digit(*p); p++) {
        if (p - at == DIGITS)
            return NULL;
        *value = *value * 10 + (*p - '0');
    }
    return p == at ? NULL : p;
}

/* Billionths behind a point, cut off behind nine digits. */
static const uint8_t *billionths(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    int n = 0;
    for (*value = 0; at < end && is_digit(*at); at++)
        if (n < 9)
            *value = *value * 10 + (*at - '0'), n++;
    for (; n < 9; n++)
        *value *= 10;
    return at;
}

static int32_t small(Piece p)
{
    int64_t value;
    const uint8_t *end = whole(p.at, p.end, &value);
    return end == p.end && value <= INT32_MAX ? (int32_t)value : -1;
}

/* ---- perf script ---- */

typedef struct {
    Piece comm, event, rest;
    int64_t time, period;
    int32_t pid, tid, cpu;
} Head;

/* The word before `end`, not before `at`. */
static Piece word_before(const uint8_t *at, const uint8_t *end)
{
    while (end > at && is_blank(end[-1]))
        end--;
    const uint8_t *begin = end;
    while (begin > at && !is_blank(begin[-1]))
        begin--;
    return (Piece){begin, end};
}

/* pid/tid, or tid alone; -1 of a thread that is not known. */
static int take_ids(Piece p, Head *head)
{
    const uint8_t *slash = memchr(p.at, '/', (size_t)(p.end - p.at));
    head->pid = slash == NULL ? -1 : small((Piece){p.at, slash});
    const Piece tid = {slash == NULL ? p.at : slash + 1, p.end};
    if (tid.end - tid.at == 2 && tid.at[0] == '-' && tid.at[1] == '1') {
        head->tid = -1;
        return 1;
    }
    head->tid = small(tid);
    return head->tid >= 0 && (slash == NULL || head->pid >= 0);
}

/* What stands before the time: comm pid/tid [cpu] flags. */
static int take_thread(const uint8_t *at, const uint8_t *end, Head *head)
{
    head->cpu = -1;
    for (int i = 0; i < 4; i++) { /* [cpu] and words of flags */
        const Piece word = word_before(at, end);
        if (word.at == word.end)
            return 0;
        if (*word.at == '[' && word.end[-1] == ']') {
            head->cpu = small((Piece){word.at + 1, word.end - 1});
        } else if (take_ids(word, head)) {
            head->comm = trimmed((Piece){at, word.at});
            return head->comm.at < head->comm.end;
        }
        end = word.at;
    }
    return 0;
}

/* comm pid/tid [cpu] time: period event: ... */
static int take_head(Piece line, Head *head)
{
    for (const uint8_t *p = line.at; p < line.end; p++) {
        if (!is_digit(*p) || p == line.at || !is_blank(p[-1]))
            continue;
        int64_t seconds, nano = 0;
        const uint8_t *q = whole(p, line.end, &seconds);
        if (q == NULL || q == line.end || *q != '.' || seconds > INT64_C(4000000000))
            continue;
        q = billionths(q + 1, line.end, &nano);
        if (q == line.end || *q != ':' || !take_thread(line.at, p, head))
            continue;
        head->time = seconds * 1000000000 + nano;
        Piece rest = trimmed((Piece){q + 1, line.end});
        head->period = -1;
        const uint8_t *behind = whole(rest.at, rest.end, &head->period);
        if (behind != NULL && behind < rest.end && is_blank(*behind))
            rest = trimmed((Piece){behind, rest.end});
        else
            head->period = -1;
        const uint8_t *stop = rest.at;
        while (stop < rest.end && !is_blank(*stop))
            stop++;
        if (stop - rest.at < 2 || stop[-1] != ':')
            return 0;
        head->event = (Piece){rest.at, stop - 1};
        head->rest = trimmed((Piece){stop, rest.end});
        return 1;
    }
    return 0;
}

/* addr symbol+0xoffset (part); 0 for a line of another kind, such as file:line. */
static int take_frame(Piece line, Piece *name, Piece *part)
{
    const uint8_t *p = line.at;
    while (p < line.end && is_hex(*p))
        p++;
    const int has_address = p > line.at && (p == line.end || is_blank(*p));
    Piece rest = has_address ? trimmed((Piece){p, line.end}) : line;
    if (!has_address) {
        const uint8_t *q = line.end;
        while (q > line.at && is_digit(q[-1]))
            q--;
        if (q < line.end && q > line.at && q[-1] == ':')
            return 0;
    }
    *part = (Piece){NULL, NULL};
    if (rest.at < rest.end && rest.end[-1] == ')') {
        int depth = 0;
        const uint8_t *q = rest.end;
        do {
            q--;
            depth += *q == ')' ? 1 : *q == '(' ? -1 : 0;
        } while (q > rest.at && depth);
        if (!depth && (q == rest.at || is_blank(q[-1]))) {
            *part = trimmed((Piece){q + 1, rest.end - 1});
            rest = trimmed((Piece){rest.at, q});
        }
    }
    const uint8_t *q = rest.end;
    while (q > rest.at && is_hex(q[-1]))
        q--;
    if (q - rest.at > 3 && q < rest.end && q[-1] == 'x' && q[-2] == '0' && q[-3] == '+')
        rest.end = q - 3;
    static const uint8_t UNKNOWN[] = "[unknown]";
    *name = rest.at < rest.end ? rest : (Piece){UNKNOWN, UNKNOWN + 9};
    return 1;
}

static void put_sample(StackRows *rows, TextArena *texts, const Head *head,
                       int64_t offset, int32_t node)
{
    const int64_t row = rows->count++;
    rows->offset[row] = offset;
    rows->time[row] = head->time;
    rows->period[row] = head->period;
    rows->comm[row] = text_of(texts, head->comm);
    rows->event[row] = text_of(texts, head->event);
    rows->pid[row] = head->pid;
    rows->tid[row] = head->tid;
    rows->cpu[row] = head->cpu;
    rows->node[row] = node;
}

static void note(int64_t *count, int64_t *first, int64_t at)
{
    if (!(*count)++)
        *first = at;
}

static Piece line_at(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
    Piece line = {at, stop == NULL ? end : stop};
    return line;
}

/* Scan samples of perf script. `is_last`: the block ends the file; else the sample that
 * its end cuts is left for the next one. `scratch`: room for MAX_FRAMES numbers. */
EXPORT void ggscope_stacks_perf(const uint8_t *data, int64_t n, int64_t is_last,
                                TextArena *texts, StackPairs *frames, StackPairs *nodes,
                                StackRows *rows, int32_t *scratch, StackTally *tally)
{
    const uint8_t *at = data, *end = data + n;
    Head head;
    tally->status = MORE;
    while (at < end) {
        const uint8_t *begin = at;
        Piece line = line_at(at, end);
        if (line.end == end && !is_last)
            break;
        if (rows->count >= rows->capacity) {
            tally->status = FULL_ROWS;
            break;
        }
        at = line.end + (line.end < end);
        if (line.at == trimmed(line).end || *line.at == '#')
            continue;
        if (!take_head(line, &head)) {
            note(&tally->n_other, &tally->first_other, begin - data);
            continue;
        }
        int64_t depth = 0, n_frames = 0;
        Piece name, part;
        int is_whole = is_last != 0, is_full = !has_room(texts, frames);
        const int is_inline = head.rest.at < head.rest.end && is_hex(*head.rest.at) &&
            head.rest.end[-1] == ')' && take_frame(head.rest, &name, &part);
        if (is_inline && !is_full)
            scratch[depth++] = pair_of(frames, text_of(texts, name), text_of(texts, part));
        while (at < end && !is_full) {
            line = line_at(at, end);
            if (line.end == end && !is_last)
                break;
            const Piece text = trimmed(line);
            if (text.at == text.end) {
                at = line.end + (line.end < end);
                is_whole = 1;
                break;
            }
            Head next; /* without stacks lines begin with blanks, as frames do */
            if (!is_blank(*line.at) || is_inline ||
                (*line.at != '\t' && take_head(line, &next))) {
                is_whole = 1;
                break;
            }
            at = line.end + (line.end < end);
            if (!take_frame(text, &name, &part))
                continue;
            if (n_frames++ >= MAX_FRAMES)
                continue;
            is_full = !has_room(texts, frames);
            if (!is_full)
                scratch[depth++] =
                    pair_of(frames, text_of(texts, name), text_of(texts, part));
        }
        is_full |= !has_room(texts, frames) || nodes->capacity - nodes->count < depth;
        if (is_full || !is_whole) {
            tally->status = is_full ? FULL_TABLES : MORE;
            at = begin;
            break;
        }
        if (n_frames > MAX_FRAMES)
            note(&tally->n_deep, &tally->first_deep, begin - data);
        put_sample(rows, texts, &head, begin - data, node_of(nodes, scratch, depth));
    }
    tally->consumed = at - data;
}

/* ---- folded ---- */

/* What an annotation of stackcollapse says a frame is part of. */
static Piece annotated(Piece name)
{
    static const uint8_t WORDS[] = "kernelinlinedJIT";
    if (name.end - name.at < 4 || memcmp(name.end - 4, "_[", 2) || name.end[-1] != ']')
        return (Piece){NULL, NULL};
    switch (name.end[-2]) {
    case 'k':
        return (Piece){WORDS, WORDS + 6};
    case 'i':
        return (Piece){WORDS + 6, WORDS + 13};
    case 'j':
        return (Piece){WORDS + 13, WORDS + 16};
    default:
        return (Piece){NULL, NULL};
    }
}

/* A weight as a whole and billionths; 0 where it is none. */
static int take_weight(Piece p, int64_t *value, int64_t *nano, int *is_negative)
{
    *is_negative = p.at < p.end && *p.at == '-';
    p.at += *is_negative;
    *nano = 0;
    const uint8_t *at = whole(p.at, p.end, value);
    if (at == NULL)
        return 0;
    if (at < p.end && *at == '.')
        at = billionths(at + 1, p.end, nano);
    return at == p.end;
}

/* Scan lines `frame;frame;frame weight`, root first. */
EXPORT void ggscope_stacks_folded(const uint8_t *data, int64_t n, int64_t is_last,
                                  TextArena *texts, StackPairs *frames,
                                  StackPairs *nodes, StackRows *rows, StackTally *tally)
{
    const uint8_t *at = data, *end = data + n;
    tally->status = MORE;
    while (at < end) {
        const Piece line = line_at(at, end);
        if (line.end == end && !is_last)
            break;
        if (rows->count >= rows->capacity) {
            tally->status = FULL_ROWS;
            break;
        }
        const Piece text = trimmed(line), weight = word_before(text.at, text.end);
        /* One blank stands before the weight; frames may be blank themselves. */
        const Piece stack = {line.at, weight.at - (weight.at > line.at)};
        int64_t value, nano;
        int is_negative, is_full = 0;
        if (text.at == text.end || *text.at == '#') {
            at = line.end + (line.end < end);
            continue;
        }
        if (stack.at == stack.end || !take_weight(weight, &value, &nano, &is_negative)) {
            note(&tally->n_other, &tally->first_other, at - data);
            at = line.end + (line.end < end);
            continue;
        }
        int32_t node = -1;
        int64_t depth = 0;
        for (const uint8_t *p = stack.at; p <= stack.end && !is_full;) {
            const uint8_t *stop = memchr(p, ';', (size_t)(stack.end - p));
            const Piece name = {p, stop == NULL ? stack.end : stop};
            p = name.end + 1;
            if (depth++ >= MAX_FRAMES)
                continue;
            is_full = !has_room(texts, frames) || nodes->count >= nodes->capacity;
            if (!is_full)
                node = pair_of(nodes, node, pair_of(frames, text_of(texts, name),
                                                    text_of(texts, annotated(name))));
        }
        if (is_full) {
            tally->status = FULL_TABLES;
            break;
        }
        if (depth > MAX_FRAMES)
            note(&tally->n_deep, &tally->first_deep, at - data);
        if (is_negative) {
            note(&tally->n_negative, &tally->first_negative, at - data);
        } else {
            const Head head = {.time = nano, .period = value, .pid = -1, .tid = -1,
                               .cpu = -1};
            put_sample(rows, texts, &head, at - data, node);
        }
        at = line.end + (line.end < end);
    }
    tally->consumed = at - data;
}
