/* The inner loops of the tensor-access reader: header columns and access patterns
 * of fixed-size records, read with pread, and the arranging of columns by thread.
 *
 * Nothing here allocates or keeps state: all memory comes from Python, with its
 * length. Contents of the file never become an index without a check.
 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

enum { OP = 0, EMPTY = 1, BAD_TIME = 2, EXTENSION = 3 }; /* kinds of records */
enum { DONE = 0, FILE_ENDS = 1, FAILED = 2, TABLE_FULL = 3 }; /* why a scan ended */
enum { NO_PATTERN = -1 };
/* model/tables.py: NO_WAIT, LONGEST_WAIT */
static const uint32_t NO_WAIT = 0xFFFFFFFF, LONGEST_WAIT = 0xFFFFFFFE;
enum { BEGIN_ONLY = 1 << 29 }; /* in the extra word: no end is known, and no wait */

/* What to look for in a record, in 64-bit words from its start. */
typedef struct {
    int64_t n_words;             /* of a record, at least 3 */
    int64_t key_first, key_stop; /* words that distinguish patterns */
    int64_t name_first, name_stop; /* the name that may begin a pass; equal: none */
    int64_t experts_word;        /* its lowest byte counts experts; 0 none */
    int64_t max_time;
    int64_t first_extension;     /* op numbers from here on are no ops */
    int64_t has_durations;
    int64_t wait_word, extra_word; /* numbers of ggscope-capture; 0: it has none */
    int64_t sample_records;      /* blocks of so many records are numbered … */
    int64_t sample_every;        /* … one in so many; 0: no patterns at all */
    const uint64_t *key_mask;    /* n_words: which bits of the words count */
    const uint64_t *key_factors; /* n_words */
    const uint64_t *name_factors; /* of the words of the name */
} RecordForm;

/* One row per record, whatever its kind. Pointers may be NULL where so noted. */
typedef struct {
    int64_t *time;
    int32_t *token;      /* -1 where it is no token number */
    int16_t *layer;      /* -1 where it is no layer */
    uint16_t *thread;
    uint8_t *op, *phase, *kind;
    int64_t *duration;   /* zeros at first, only others are written; or NULL */
    uint32_t *wait;      /* NO_WAIT where none is recorded; or NULL */
    uint32_t *name_hash; /* 0 for a blank name; or NULL */
    int32_t *pattern;    /* or NULL */
} RecordColumns;

typedef struct {
    int64_t n_records, n_ops, n_extension, n_bad_time, n_expert, n_empty;
    int64_t first_bad_time, first_empty; /* record numbers, -1 none */
    int64_t has_layers, has_durations, has_waits;
    int64_t status, error;               /* why the scan ended; errno of FAILED */
} RecordTally;

/* Distinct patterns, numbered in order of appearance; a hash table finds them. */
typedef struct {
    int64_t count, capacity;
    int64_t n_slots;       /* a power of two, larger than capacity */
    int32_t *slots;        /* number of a pattern, -1 free */
    int32_t *next;         /* capacity: which pattern followed this one last time */
    uint64_t *hashes;      /* capacity */
    uint64_t *exemplars;   /* capacity * n_words: the first record of each */
    int64_t *first_record; /* capacity */
    int64_t last;          /* the pattern before; -1 at first */
} RecordPatterns;

static inline uint64_t mixed(uint64_t word) { return word ^ (word >> 32); }

static uint32_t hash_of_name(const RecordForm *form, const uint64_t *words)
{
    if (!(words[form->name_first] & 0xFF))
        return 0;
    uint64_t sum = 0;
    for (int64_t i = form->name_first; i < form->name_stop; i++)
        sum += mixed(words[i]) * form->name_factors[i - form->name_first];
    return (uint32_t)(sum >> 32) | 1;
}

static int is_same(const RecordForm *form, const uint64_t *a, const uint64_t *b)
{
    uint64_t differ = 0;
    for (int64_t i = form->key_first; i < form->key_stop; i++)
        differ |= (a[i] ^ b[i]) & form->key_mask[i];
    return !differ;
}

/* Return the number of a record's pattern, a new one where need be; -1 where there
 * is no room for it. A model repeats itself, so the successor of the last pattern is
 * tried first; that spares the hash nearly always. */
static int64_t pattern_of(const RecordForm *form, RecordPatterns *table,
                          const uint64_t *words, int64_t record)
{
    int64_t guess = table->last >= 0 ? table->next[table->last] : -1;
    if (guess >= 0 && is_same(form, words, table->exemplars + guess * form->n_words))
        return table->last = guess;
    uint64_t hash = 0;
    for (int64_t i = form->key_first; i < form->key_stop; i++)
        hash += mixed(words[i] & form->key_mask[i]) * form->key_factors[i];
    hash = mixed(hash);
    const uint64_t wrap = (uint64_t)table->n_slots - 1;
    uint64_t slot = hash & wrap;
    int64_t found = -1;
    /* Ends: there are more slots than patterns. */
    while ((found = table->slots[slot]) >= 0) {
        if (table->hashes[found] == hash &&
            is_same(form, words, table->exemplars + found * form->n_words))
            break;
        slot = (slot + 1) & wrap;
    }
    if (found < 0) {
        if (table->count >= table->capacity)
            return -1;
        found = table->count++;
        table->slots[slot] = (int32_t)found;
        table->next[found] = -1;
        table->hashes[found] = hash;
        table->first_record[found] = record;
        memcpy(table->exemplars + found * form->n_words, words,
               (size_t)form->n_words * 8);
    }
    if (table->last >= 0)
        table->next[table->last] = (int32_t)found;
    return table->last = found;
}

static int is_zero(const uint64_t *words, int64_t n)
{
    uint64_t any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= words[i];
    return !any;
}

/* Return what a record is, and count it. */
static int kind_of(const RecordForm *form, const uint64_t *words, int64_t record,
                   RecordTally *tally)
{
    if (!(words[0] | words[1] | words[2]) && is_zero(words + 3, form->n_words - 3)) {
        if (!tally->n_empty++)
            tally->first_empty = record;
        return EMPTY;
    }
    tally->n_records++;
    if (words[0] > (uint64_t)form->max_time) {
        if (!tally->n_bad_time++)
            tally->first_bad_time = record;
        return BAD_TIME;
    }
    if ((int64_t)(words[2] & 0xFF) >= form->first_extension) {
        tally->n_extension++;
        return EXTENSION;
    }
    tally->n_ops++;
    return OP;
}

/* Write the header columns of one op record to row `i`. */
static void take_header(const RecordForm *form, const uint64_t *words, int64_t i,
                        const RecordColumns *out, RecordTally *tally)
{
    const uint32_t token = (uint32_t)words[1];
    const uint16_t layer = (uint16_t)(words[1] >> 32);
    out->time[i] = (int64_t)words[0];
    out->token[i] = token < 1u << 31 ? (int32_t)token : -1;
    out->layer[i] = layer < 1u << 15 ? (int16_t)layer : -1;
    out->thread[i] = (uint16_t)(words[1] >> 48);
    out->op[i] = (uint8_t)words[2];
    out->phase[i] = (uint8_t)(words[2] >> 8);
    tally->has_layers |= layer != 0;
    if (out->name_hash)
        out->name_hash[i] = hash_of_name(form, words);
    const int64_t duration = (int64_t)(words[2] >> 24);
    if (duration && form->has_durations) {
        tally->has_durations = 1;
        if (out->duration)
            out->duration[i] = duration;
    }
    if (out->wait) {
        const uint32_t wait = (uint32_t)words[form->wait_word];
        const int is_known = !(words[form->extra_word] >> 32 & BEGIN_ONLY);
        out->wait[i] = !is_known ? NO_WAIT : wait < LONGEST_WAIT ? wait : LONGEST_WAIT;
        tally->has_waits |= is_known;
    }
    if (form->experts_word && words[form->experts_word] & 0xFF)
        tally->n_expert++;
}

static int is_sampled(const RecordForm *form, int64_t record)
{
    return form->sample_every &&
           record / form->sample_records % form->sample_every == 0;
}

/* Fill `buffer` from the file; return the bytes read, fewer at its end, -1 on error. */
static int64_t fill(int fd, int64_t offset, uint8_t *buffer, int64_t length)
{
    int64_t done = 0;
    while (done < length) {
        const ssize_t n = pread(fd, buffer + done, (size_t)(length - done),
                                (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (!n)
            break;
        done += n;
    }
    return done;
}

/* Read records [first, stop) of the file into rows 0, 1, … of `out`.
 *
 * buffer: room for buffer_records; thread_first: for each of 65536 raw thread ids the
 * earliest time of an op so far. The tally is added to. Returns the rows done;
 * tally->status says why they are fewer.
 */
EXPORT int64_t ggscope_tensor_scan(int32_t fd, int64_t first, int64_t stop,
                                   uint64_t *buffer, int64_t buffer_records,
                                   const RecordForm *form, const RecordColumns *out,
                                   RecordPatterns *table, int64_t *thread_first,
                                   RecordTally *tally)
{
    const int64_t size = form->n_words * 8;
    int64_t done = 0;
    tally->status = DONE;
    while (first + done < stop) {
        int64_t want = stop - first - done;
        want = want < buffer_records ? want : buffer_records;
        const int64_t got = fill(fd, (first + done) * size, (uint8_t *)buffer,
                                 want * size);
        if (got < 0) {
            tally->status = FAILED;
            tally->error = errno;
            return done;
        }
        const uint64_t *words = buffer;
        for (int64_t k = 0; k < got / size; k++, words += form->n_words) {
            const int64_t record = first + done;
            if (out->pattern) {
                out->pattern[done] = NO_PATTERN;
                if (table->count >= table->capacity) {
                    tally->status = TABLE_FULL;
                    return done;
                }
            }
            const int kind = kind_of(form, words, record, tally);
            out->kind[done] = (uint8_t)kind;
            if (kind == OP) {
                take_header(form, words, done, out, tally);
                const uint16_t thread = out->thread[done];
                if (out->time[done] < thread_first[thread])
                    thread_first[thread] = out->time[done];
                if (out->pattern && is_sampled(form, record))
                    out->pattern[done] = (int32_t)pattern_of(form, table, words, record);
            }
            done++;
        }
        if (got < want * size) {
            tally->status = FILE_ENDS;
            return done;
        }
    }
    return done;
}

/* Write the positions [first, stop) behind those already known of their lane.
 * lane_of: of each raw thread id, below n_lanes; next, limit: the next free row of
 * each lane and the end of its rows. Returns 0 where a lane has no room: a bug. */
EXPORT int32_t ggscope_tensor_order(const uint16_t *thread, int64_t first, int64_t stop,
                                    const uint16_t *lane_of, int64_t *next,
                                    const int64_t *limit, int32_t *order)
{
    for (int64_t i = first; i < stop; i++) {
        const uint16_t lane = lane_of[thread[i]];
        if (next[lane] >= limit[lane])
            return 0;
        order[next[lane]++] = (int32_t)i;
    }
    return 1;
}

#define GATHER(FROM, TO)                                                            \
    for (int64_t i = 0; i < n; i++)                                                 \
        ((TO *)out)[i] = (TO)((const FROM *)column)[order[i]];                      \
    return 1

/* Write column[order[i]] for n rows, in a narrower signed type if so wanted; widths
 * in bytes. Returns 0 for widths that it does not know. */
EXPORT int32_t ggscope_tensor_gather(const void *column, int64_t width,
                                     const int32_t *order, int64_t n, void *out,
                                     int64_t out_width)
{
    switch (width * 16 + out_width) {
    case 0x11: GATHER(int8_t, int8_t);
    case 0x21: GATHER(int16_t, int8_t);
    case 0x22: GATHER(int16_t, int16_t);
    case 0x41: GATHER(int32_t, int8_t);
    case 0x42: GATHER(int32_t, int16_t);
    case 0x44: GATHER(int32_t, int32_t);
    case 0x88: GATHER(int64_t, int64_t);
    }
    return 0;
}
