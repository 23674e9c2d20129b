/* The lines of logs of llama.cpp and of programs around it: which of them are about
 * requests, when they were written, and the numbers in them.
 *
 * A line is what ends with \n or \r. Before its message may stand, in any order, escape
 * sequences of a terminal, the times of Docker, journald and syslog, what Kubernetes
 * puts there (CRI, kubectl logs), the key=value pairs of Go's slog, llama.cpp's own clock
 * (M.SS.mmm.uuu L), and the name of a function.
 *
 * Nothing here allocates; the caller gives whole lines. Pieces of a line that CRI has cut
 * are put together within what is given at once.
 */
#define _GNU_SOURCE
#include <string.h>

#include "native.h"
#include "text_table.h"

enum { VALUES = 3, SCRATCH = 4096, NO_NUMBER = -2, NEAR = 64 };
enum { NO_CLOCK = 0, SINCE_START = 1, WALL = 2, LOCAL = 3 }; /* what a time counts from */

/* readers/logs/lines.py: Kind */
enum {
    NONE, HEAD, PROMPT_EVAL, EVAL, TOTAL, LAUNCH, NEW_PROMPT, PAST, CACHED, PROGRESS,
    RATE, RELEASE, REPROCESS, CHECKPOINT, RESTORED, ERASED, DRAFT, MEMORY, START, MODEL,
    LISTENING, HTTP, DEVICE, SPLITS, BUFFER, METADATA, REMARK, CANCEL, DEFER, SHIFT,
    CACHE_STATE, DRAFT_ROUNDS, DRAFT_TOKENS, WARM_UP, LOAD_TIME, OP_LIST, THROUGHPUT,
    QUEUE, SPECULATION, ENGINE, KV_CACHE, CLEARED, KNOWN, STATISTICS
};

/* One row per line with facts. */
typedef struct {
    int64_t *line;     /* number of the line in its block */
    int64_t *offset;   /* of the message in the block */
    int32_t *length;   /* of the message */
    int64_t *time;     /* ns */
    uint8_t *clock, *level, *kind;
    int32_t *slot;     /* NO_NUMBER where it names none */
    int64_t *task;
    double *value;     /* VALUES numbers behind the words that state the kind */
    uint8_t *n_values;
} LogRows;

typedef struct {
    int64_t n_rows, n_lines, consumed; /* bytes of whole lines */
    int64_t n_known;                   /* lines with a known prefix or message */
    int64_t open_streams; /* bits: the last line of this stream is to be continued */
} LogTally;

typedef struct {
    const char *text;
    uint8_t size, kind;
} Phrase;

#define PHRASE(text, kind) {text, sizeof(text) - 1, kind}
static const Phrase PHRASES[] = {
    PHRASE("prompt eval time", PROMPT_EVAL),
    PHRASE("generation eval time", EVAL),
    PHRASE("eval time", EVAL),
    PHRASE("total time", TOTAL),
    PHRASE("processing task", LAUNCH),
    PHRASE("slot is processing task", LAUNCH),
    PHRASE("new prompt", NEW_PROMPT),
    PHRASE("n_past = ", PAST),
    PHRASE("n_tokens = ", CACHED),
    PHRASE("cached n_tokens = ", CACHED),
    PHRASE("kv cache rm", CACHED),
    PHRASE("prompt processing progress", PROGRESS),
    PHRASE("prompt processing done", PROGRESS),
    PHRASE("prompt processing, n_tokens", PROGRESS),
    PHRASE("clearing prompt with ", CLEARED),
    PHRASE("n_decoded = ", RATE),
    PHRASE("stop processing", RELEASE),
    PHRASE("slot released", RELEASE),
    PHRASE("forcing full prompt re-processing", REPROCESS),
    PHRASE("created context checkpoint", CHECKPOINT),
    PHRASE("restored context checkpoint", RESTORED),
    PHRASE("erased invalidated context checkpoint", ERASED),
    PHRASE("draft acceptance", DRAFT),
    PHRASE("statistics ", STATISTICS),
    PHRASE("build = ", START),
    PHRASE("n_threads = ", START),
    PHRASE("loading model", MODEL),
    PHRASE("loaded meta data with", MODEL),
    PHRASE("server is listening", LISTENING),
    PHRASE("HTTP server is listening", LISTENING),
    PHRASE("warming up the model", WARM_UP),
    PHRASE("load time", LOAD_TIME),
    PHRASE("Avg prompt throughput:", THROUGHPUT), /* vLLM: as far as ENGINE */
    PHRASE("SpecDecoding metrics:", SPECULATION),
    PHRASE("Initializing a V", ENGINE),
    PHRASE("Loading weights took ", ENGINE),
    PHRASE("Model loading took ", ENGINE),
    PHRASE("GPU KV cache size:", ENGINE),
    PHRASE("Maximum concurrency for ", ENGINE),
    PHRASE("init engine (", ENGINE),
    PHRASE("graph splits", SPLITS),
    PHRASE("- kv ", METADATA),
    PHRASE("cancel task", CANCEL),
    PHRASE("defer task", DEFER),
    PHRASE("slot context shift", SHIFT),
    PHRASE("- cache state", CACHE_STATE),
    /* Lists of ops, which ops.c reads. */
    PHRASE("## SPLIT #", OP_LIST),
    PHRASE("Vulkan Timings:", OP_LIST),
    PHRASE("ggml-hex: ", OP_LIST),
    /* Lines of llama.cpp that nothing is read of. */
    PHRASE("sampling time", KNOWN),
};
enum { N_PHRASES = sizeof PHRASES / sizeof *PHRASES };

typedef struct {
    const uint8_t *at, *end;
    int64_t time, task;
    int32_t slot;
    uint8_t clock, level, is_known;
    int64_t p0; /* tokens of the cache that stay, where a field says it; or NO_NUMBER */
} Line;

static inline int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline int is_word(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline int begins(const uint8_t *at, const uint8_t *end, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(end - at) >= n && !memcmp(at, text, n);
}
static inline const uint8_t *found(const uint8_t *at, const uint8_t *end, const char *text)
{
    return at < end ? memmem(at, (size_t)(end - at), text, strlen(text)) : NULL;
}
static const uint8_t *spaces(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* Reads `width` digits; returns -1 where there are fewer. */
static int64_t digits(const uint8_t *at, const uint8_t *end, int width)
{
    int64_t value = 0;
    if (end - at < width)
        return -1;
    for (int i = 0; i < width; i++) {
        if (!is_digit(at[i]))
            return -1;
        value = value * 10 + (at[i] - '0');
    }
    return value;
}

/* Days from 1970-01-01 (Howard Hinnant's civil algorithm). */
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* HH:MM:SS[.fraction]; returns where it ends, NULL where it is none. */
static const uint8_t *clock_time(const uint8_t *at, const uint8_t *end, int64_t *ns)
{
    int64_t h = digits(at, end, 2);
    if (h < 0 || end - at < 8 || at[2] != ':' || at[5] != ':')
        return NULL;
    int64_t m = digits(at + 3, end, 2), s = digits(at + 6, end, 2);
    if (h > 23 || m < 0 || m > 59 || s < 0 || s > 60)
        return NULL;
    at += 8;
    int64_t fraction = 0, unit = 100000000;
    if (at < end && (*at == '.' || *at == ','))
        for (at++; at < end && is_digit(*at); at++, unit /= 10)
            fraction += (*at - '0') * unit;
    *ns = ((h * 60 + m) * 60 + s) * 1000000000 + fraction;
    return at;
}

/* A trace holds times below 2^62 ns, which end in 2116; later ones are no clock. */
enum { MAX_YEAR = 2115 };
static const int64_t MAX_SECONDS = 4600000000;

/* YYYY-MM-DD and a time, with or without a zone; NULL where it is none. */
static const uint8_t *date_time(const uint8_t *at, const uint8_t *end, Line *line)
{
    int64_t y = digits(at, end, 4), ns;
    if (y < 1970 || y > MAX_YEAR || end - at < 19 || (at[4] != '-' && at[4] != '/'))
        return NULL;
    int64_t m = digits(at + 5, end, 2), d = digits(at + 8, end, 2);
    if (at[7] != at[4] || m < 1 || m > 12 || d < 1 || d > 31)
        return NULL;
    if (at[10] != 'T' && at[10] != ' ')
        return NULL;
    at = clock_time(at + 11, end, &ns);
    if (at == NULL)
        return NULL;
    int64_t time = days_of(y, m, d) * 86400000000000 + ns;
    uint8_t clock = LOCAL;
    if (at < end && *at == 'Z') {
        clock = WALL;
        at++;
    } else if (end - at >= 5 && (*at == '+' || *at == '-')) {
        int colon = at[3] == ':';
        int64_t h = digits(at + 1, end, 2), minutes = digits(at + 3 + colon, end, 2);
        if (h >= 0 && minutes >= 0) {
            time -= (*at == '-' ? -1 : 1) * (h * 60 + minutes) * 60000000000;
            clock = WALL;
            at += 5 + colon;
        }
    }
    line->time = time, line->clock = clock;
    return at;
}

/* M.SS.mmm.uuu L of llama.cpp: minutes since its start; the letter is the level. */
static const uint8_t *own_clock(const uint8_t *at, const uint8_t *end, Line *line)
{
    const uint8_t *p = at;
    int64_t minutes = 0;
    while (p < end && is_digit(*p) && p - at < 7)
        minutes = minutes * 10 + (*p++ - '0');
    if (p == at || end - p < 13 || p[0] != '.' || p[3] != '.' || p[7] != '.' ||
        p[11] != ' ')
        return NULL;
    int64_t s = digits(p + 1, end, 2), ms = digits(p + 4, end, 3),
            us = digits(p + 8, end, 3);
    if (s < 0 || ms < 0 || us < 0 || p[12] < 'A' || p[12] > 'Z')
        return NULL;
    line->time = ((minutes * 60 + s) * 1000000 + ms * 1000 + us) * 1000;
    line->clock = SINCE_START;
    line->level = p[12];
    p += 13;
    return p < end && *p == ' ' ? p + 1 : p;
}

static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* "Jan 14 18:26:14 host program[123]: "; the year is not stated. */
static const uint8_t *syslog_prefix(const uint8_t *at, const uint8_t *end, Line *line)
{
    if (end - at < 16 || at[3] != ' ' || at[6] != ' ')
        return NULL;
    int month = 0;
    while (month < 12 && memcmp(at, MONTHS + 3 * month, 3))
        month++;
    int64_t ns, day = at[4] == ' ' ? digits(at + 5, end, 1) : digits(at + 4, end, 2);
    const uint8_t *p = clock_time(at + 7, end, &ns);
    if (month == 12 || day < 1 || p == NULL)
        return NULL;
    if (line->clock == NO_CLOCK) {
        line->time = days_of(2000, month + 1, day) * 86400000000000 + ns;
        line->clock = LOCAL;
    }
    return p;
}

/* " host program[123]: " behind a time of journald or syslog. */
static const uint8_t *host_and_program(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *p = spaces(at, end);
    for (int i = 0; i < 2; i++) {
        const uint8_t *word = p;
        while (p < end && *p != ' ' && *p != ':')
            p++;
        if (p == word)
            return NULL;
        if (i == 0) {
            if (p == end || *p != ' ')
                return NULL;
            p = spaces(p, end);
        }
    }
    if (p == end || *p != ':' || p[-1] != ']')
        return NULL;
    return spaces(p + 1, end);
}

/* " stderr F " behind a time, as runtimes of Kubernetes write it (CRI): P is a piece of a
 * line, F its end. Returns where the text begins, or NULL. */
static const uint8_t *cri_tags(const uint8_t *at, const uint8_t *end, int *stream,
                               int *is_piece)
{
    *stream = begins(at, end, " stderr ");
    if (!*stream && !begins(at, end, " stdout "))
        return NULL;
    const uint8_t *p = at + 8;
    if (p == end || (*p != 'F' && *p != 'P'))
        return NULL;
    *is_piece = *p++ == 'P';
    while (p < end && *p == ':') /* more tags may follow */
        for (p++; p < end && *p != ' ' && *p != ':'; p++)
            ;
    if (p < end && *p != ' ')
        return NULL;
    return p < end ? p + 1 : p;
}

/* The whole prefix of CRI at the begin of a line; see cri_tags. */
static const uint8_t *cri_prefix(const uint8_t *at, const uint8_t *end, Line *line,
                                 int *stream, int *is_piece)
{
    if (end - at < 29 || at[4] != '-' || at[10] != 'T')
        return NULL;
    const uint8_t *p = date_time(at, end, line);
    return p == NULL ? NULL : cri_tags(p, end, stream, is_piece);
}

/* The value of key=, quoted or not, up to a blank; NULL where it is not there. */
static const uint8_t *value_of(const uint8_t *at, const uint8_t *end, const char *key,
                               const uint8_t **stop)
{
    const uint8_t *p = found(at, end, key);
    if (p == NULL)
        return NULL;
    p += strlen(key);
    const uint8_t *q = p;
    if (p < end && *p == '"') {
        q = ++p;
        while (q < end && (*q != '"' || q[-1] == '\\'))
            q++;
    } else {
        while (q < end && *q != ' ' && *q != ',' && *q != '}')
            q++;
    }
    *stop = q;
    return p;
}

static int integer(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    int minus = at < end && *at == '-';
    const uint8_t *p = at + minus, *first = p;
    int64_t number = 0;
    while (p < end && is_digit(*p) && p - first < 18)
        number = number * 10 + (*p++ - '0');
    if (p == first)
        return 0;
    *value = minus ? -number : number;
    return 1;
}

static void pair(const Line *line, const char *key, int64_t *value)
{
    const uint8_t *stop, *at = value_of(line->at, line->end, key, &stop);
    if (at != NULL)
        integer(at, stop, value);
}

static uint8_t level_of(const uint8_t *at, const uint8_t *end)
{
    if (at == end)
        return 0;
    uint8_t c = *at & (uint8_t)~0x20;
    return c == 'I' || c == 'W' || c == 'E' || c == 'D' || c == 'V' ? c : 0;
}

/* Fields that old servers write behind the message, or as JSON. */
static void numbered(Line *line, int is_json)
{
    int64_t seconds = -1, slot = NO_NUMBER, task = NO_NUMBER;
    pair(line, is_json ? "\"timestamp\":" : "timestamp=", &seconds);
    pair(line, is_json ? "\"id_slot\":" : "id_slot=", &slot);
    pair(line, is_json ? "\"slot_id\":" : "slot_id=", &slot);
    pair(line, is_json ? "\"id_task\":" : "id_task=", &task);
    pair(line, is_json ? "\"task_id\":" : "task_id=", &task);
    pair(line, is_json ? "\"p0\":" : " p0=", &line->p0);
    if (seconds > 0 && seconds < MAX_SECONDS && line->clock == NO_CLOCK)
        line->time = seconds * 1000000000, line->clock = WALL;
    if (slot >= -1 && slot < 1 << 30)
        line->slot = (int32_t)slot;
    if (task >= -1)
        line->task = task;
}

/* "(APIServer pid=1) " of vLLM; returns what stands behind it, or NULL. */
static const uint8_t *vllm_process(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *p = at + 1;
    while (p < end && (is_word(*p) || *p == '-') && p - at < 48)
        p++;
    if (p == at + 1 || !begins(p, end, " pid="))
        return NULL;
    for (p += 5; p < end && is_digit(*p); p++)
        ;
    return begins(p, end, ") ") ? p + 2 : NULL;
}

/* "INFO 08-01 20:59:09 [core.py:114] " of vLLM, without a year; or NULL. */
static const uint8_t *vllm_prefix(const uint8_t *at, const uint8_t *end, Line *line)
{
    static const char *const WORDS[] = {"INFO ", "WARNING ", "ERROR ", "DEBUG "};
    const uint8_t *p = NULL, *stop;
    for (int i = 0; i < 4 && p == NULL; i++)
        if (begins(at, end, WORDS[i]))
            p = at + strlen(WORDS[i]);
    if (p == NULL || end - p < 16 || p[2] != '-' || p[5] != ' ')
        return NULL;
    int64_t ns, month = digits(p, end, 2), day = digits(p + 3, end, 2);
    const uint8_t *q = clock_time(p + 6, end, &ns);
    if (month < 1 || month > 12 || day < 1 || day > 31 || q == NULL)
        return NULL;
    if ((stop = memchr(q, ']', (size_t)smaller(end - q, 96))) == NULL ||
        found(q, stop, ".py:") == NULL)
        return NULL;
    if (line->clock == NO_CLOCK) {
        line->time = days_of(2000, month, day) * 86400000000000 + ns;
        line->clock = LOCAL;
    }
    line->level = *at;
    return spaces(stop + 1, end);
}

/* Takes one thing away that stands before the message; 0 where there is none. */
static int strip(Line *line)
{
    const uint8_t *at = line->at, *end = line->end, *p, *stop;
    if (at == end)
        return 0;
    if (is_digit(*at)) {
        if ((p = own_clock(at, end, line)) != NULL) {
            line->at = p;
            return 1;
        }
        if ((p = date_time(at, end, line)) != NULL) {
            int stream, is_piece;
            const uint8_t *q = cri_tags(p, end, &stream, &is_piece);
            if (q == NULL)
                q = host_and_program(p, end);
            line->at = q != NULL ? q : spaces(p, end);
            return 1;
        }
        return 0;
    }
    if (begins(at, end, "time=") && (p = date_time(at + 5, end, line)) != NULL) {
        if ((at = value_of(p, end, "level=", &stop)) != NULL)
            line->level = level_of(at, stop);
        line->at = spaces(p, end);
        return 2;
    }
    if ((p = syslog_prefix(at, end, line)) != NULL) {
        const uint8_t *q = host_and_program(p, end);
        line->at = q != NULL ? q : spaces(p, end);
        return 1;
    }
    if (*at == '{') {
        if (begins(at, end, "{\"log\":\"")) { /* Docker's json-file */
            if ((p = value_of(at, end, "\"time\":", &stop)) != NULL)
                date_time(p, stop, line);
            p = value_of(at, end, "\"log\":", &stop);
            line->at = p;
            if (stop - p >= 2 && !memcmp(stop - 2, "\\n", 2))
                stop -= 2;
            line->end = stop > p ? stop : p;
            return 1;
        }
        if (found(at, end, "\"level\":") == NULL)
            return 0;
        numbered(line, 1);
        if ((p = value_of(at, end, "\"level\":", &stop)) != NULL)
            line->level = level_of(p, stop);
        if ((p = value_of(at, end, "\"message\":", &stop)) == NULL &&
            (p = value_of(at, end, "\"msg\":", &stop)) == NULL)
            return 0;
        line->at = p, line->end = stop;
        return 1;
    }
    /* "[pod/llama-0/server] " of kubectl logs --prefix */
    if (begins(at, end, "[pod/") &&
        (p = memchr(at, ']', (size_t)smaller(end - at, 512))) != NULL &&
        begins(p, end, "] ")) {
        line->at = p + 2;
        return 1;
    }
    if (*at == '(' && (p = vllm_process(at, end)) != NULL) {
        line->at = p;
        return 1;
    }
    if ((p = vllm_prefix(at, end, line)) != NULL) {
        line->at = p;
        line->is_known = 1;
        return 1;
    }
    if ((*at == 'I' || *at == 'W' || *at == 'E' || *at == 'V' || *at == 'D') &&
        (p = memchr(at, '[', (size_t)smaller(end - at, 6))) != NULL &&
        (stop = memchr(p, ']', (size_t)smaller(end - p, 64))) != NULL) {
        line->level = *at;
        numbered(line, 0);
        p = spaces(stop + 1, end);
        line->at = p;
        const uint8_t *tail = found(p, end, " | tid=");
        if (tail != NULL)
            line->end = tail;
        return 1;
    }
    /* "llama-1  | " of docker compose */
    p = at;
    while (p < end && (is_word(*p) || *p == '-' || *p == '.') && p - at < 64)
        p++;
    const uint8_t *q = spaces(p, end);
    if (p > at && q > p && end - q >= 2 && q[0] == '|' && q[1] == ' ') {
        line->at = q + 2;
        return 1;
    }
    return 0;
}

/* The numbers of a text, in order; those within words and after 0x are none. */
static uint8_t numbers(const uint8_t *at, const uint8_t *end, double *value)
{
    static const double TENS[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint8_t n = 0;
    const uint8_t *start = at;
    while (at < end && n < VALUES) {
        if (!is_digit(*at) || (at > start && (is_word(at[-1]) || at[-1] == '.'))) {
            at++;
            continue;
        }
        int minus = at > start && at[-1] == '-' && (at - 1 == start || !is_word(at[-2]));
        uint64_t whole = 0;
        int places = 0, size = 0;
        const uint8_t *p = at;
        while (p < end && is_digit(*p) && size < 18)
            whole = whole * 10 + (*p++ - '0'), size++;
        if (p < end - 1 && *p == '.' && is_digit(p[1]))
            for (p++; p < end && is_digit(*p); p++)
                if (size < 15 && places < 15)
                    whole = whole * 10 + (*p - '0'), size++, places++;
        if (p < end && is_digit(*p)) { /* too long to be a number */
            while (p < end && is_digit(*p))
                p++;
        } else if (p == end || !is_word(*p) || *p == 'e') {
            double number = (double)whole / TENS[places];
            value[n++] = minus ? -number : number;
        }
        at = p;
    }
    return n;
}

/* The number behind a word; -1 where it is not there. */
static double number_behind(const uint8_t *at, const uint8_t *end, const char *word)
{
    double value[VALUES];
    const uint8_t *p = found(at, end, word);
    return p != NULL && numbers(p + strlen(word), end, value) ? value[0] : -1;
}

/* A number for the name of what drafts, up to the colon. */
static double name_number(const uint8_t *at, const uint8_t *end)
{
    uint32_t hash = 2166136261u;
    for (; at < end && *at != ':'; at++)
        hash = (hash ^ *at) * 16777619u;
    return hash;
}

/* Sums since the start of one kind of drafts, in two rows: rounds, those of which
 * something was accepted and ms of drafting; tokens, accepted tokens, and the name. */
static void draft_sums(const uint8_t *at, const uint8_t *end, const LogRows *rows, int64_t row)
{
    double *rounds = rows->value + row * VALUES, *tokens = rounds + VALUES, ms[VALUES];
    const uint8_t *times = found(at, end, "dur(b,g,a) = ");
    rounds[0] = number_behind(at, end, "#gen drafts =");
    rounds[1] = number_behind(at, end, "#acc drafts =");
    int has_times = times != NULL && numbers(times + 13, end, ms) == VALUES;
    rounds[2] = has_times ? ms[1] : -1;
    tokens[0] = number_behind(at, end, "#gen tokens =");
    tokens[1] = number_behind(at, end, "#acc tokens =");
    tokens[2] = name_number(at, end);
    rows->kind[row] = DRAFT_ROUNDS, rows->n_values[row] = VALUES;
    rows->kind[row + 1] = DRAFT_TOKENS, rows->n_values[row + 1] = VALUES;
}

/* Of the interval before: tokens accepted at once, percent of drafted tokens that were
 * accepted, and drafted tokens/s. */
static void acceptance(const uint8_t *at, const uint8_t *end, const LogRows *rows,
                       int64_t row)
{
    double *value = rows->value + row * VALUES;
    value[0] = number_behind(at, end, "acceptance length:");
    value[1] = number_behind(at, end, "Draft acceptance rate:");
    value[2] = number_behind(at, end, "Drafted throughput:");
    rows->n_values[row] = VALUES;
}

/* Means of the interval before, in two rows: tokens/s of prompts and of generation and
 * how many run; how many wait, and percent of the KV cache and of hits. */
static void engine_means(const uint8_t *at, const uint8_t *end, const LogRows *rows,
                         int64_t row)
{
    double *rates = rows->value + row * VALUES, *queue = rates + VALUES;
    rates[0] = number_behind(at, end, " ");
    rates[1] = number_behind(at, end, "generation throughput:");
    rates[2] = number_behind(at, end, "Running:");
    queue[0] = number_behind(at, end, "Waiting:");
    queue[1] = number_behind(at, end, "KV cache usage:");
    queue[2] = number_behind(at, end, "cache hit rate:");
    rows->kind[row] = THROUGHPUT, rows->n_values[row] = VALUES;
    rows->kind[row + 1] = QUEUE, rows->n_values[row + 1] = VALUES;
}

static const uint8_t *function_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *p = at;
    while (p < end && (is_word(*p) || *p == '(' || *p == ')' || *p == '~') && p - at < 48)
        p++;
    return p > at && p < end && *p == ':' ? p + 1 : NULL;
}

static uint8_t phrase_kind(const uint8_t *at, const uint8_t *end, const uint8_t **behind)
{
    int64_t n = end - at;
    for (int i = 0; i < N_PHRASES; i++) {
        const Phrase *phrase = &PHRASES[i];
        if (phrase->size <= n && *at == (uint8_t)phrase->text[0] &&
            !memcmp(at, phrase->text, phrase->size)) {
            *behind = at + phrase->size;
            return phrase->kind;
        }
    }
    return NONE;
}

/* Finds what a message states; `behind` is set to where its numbers begin. */
static uint8_t classify(Line *line, const uint8_t **behind)
{
    const uint8_t *at = spaces(line->at, line->end), *end = line->end, *p;
    *behind = end;
    if (at == end)
        return NONE;
    if (begins(at, end, "[GIN] ") && end - at > 30) {
        int64_t y = digits(at + 6, end, 4), m = digits(at + 11, end, 2), ns;
        int64_t d = digits(at + 14, end, 2);
        if (y > 1970 && y <= MAX_YEAR && m > 0 && m < 13 && d > 0 && clock_time(at + 19, end, &ns)) {
            if (line->clock == NO_CLOCK) {
                line->time = days_of(y, m, d) * 86400000000000 + ns;
                line->clock = LOCAL;
            }
            line->is_known = 1;
            line->at = at;
            return HTTP;
        }
    }
    if (begins(at, end, "slot ") && (p = found(at, end, ": id ")) != NULL &&
        p - at < 48) {
        const uint8_t *function = spaces(at + 4, end), *bar;
        int64_t number;
        line->is_known = 1;
        if (integer(spaces(p + 5, end), end, &number))
            line->slot = (int32_t)number;
        if ((bar = found(p, end, "| task ")) == NULL)
            return NONE;
        if (integer(spaces(bar + 7, end), end, &number))
            line->task = number;
        const uint8_t *message = memchr(bar + 1, '|', (size_t)(end - bar - 1));
        message = message == NULL ? end : spaces(message + 1, end);
        line->at = message;
        if (message == end)
            return begins(function, end, "print_timing") ? HEAD : NONE;
        uint8_t kind = phrase_kind(message, end, behind);
        if (kind == CACHED && found(message, end, "memory_seq_rm") == NULL &&
            found(message, end, "rm [") == NULL)
            return NONE;
        return kind;
    }
    if (begins(at, end, "srv ")) {
        line->is_known = 1;
        at = spaces(at + 4, end);
    }
    const uint8_t *first = at;
    for (int i = 0; i < 2; i++) /* "operator(): operator(): …" */
        if ((p = function_end(at, end)) != NULL)
            at = spaces(p, end);
    if (at > first) {
        int64_t n = at - first;
        if (memmem(first, (size_t)n, "memory_breakdown_print", 22) != NULL) {
            line->is_known = 1;
            line->at = at;
            return MEMORY;
        }
        if (begins(first, end, "build_info:") || begins(first, end, "build:") ||
            begins(first, end, "system_info:")) {
            line->is_known = 1;
            line->at = first;
            return START;
        }
        line->is_known |= begins(first, end, "llama_") || begins(first, end, "common_") ||
                          begins(first, end, "load_tensors") ||
                          begins(first, end, "print_info") ||
                          begins(first, end, "ggml_");
    }
    if (begins(at, end, "Engine ")) { /* of several that share the work */
        int64_t number;
        for (p = at + 7; p < end && is_digit(*p); p++)
            ;
        if (p < end && *p == ':' && p - at < 16 && integer(at + 7, end, &number))
            line->slot = (int32_t)number, at = spaces(p + 1, end);
    }
    line->at = at;
    if (at == end)
        return NONE;
    uint8_t kind = phrase_kind(at, end, behind);
    if (kind == START && at == first)
        kind = NONE;
    if (kind == PAST && at == first && line->slot == NO_NUMBER)
        kind = NONE; /* "n_past = …" of other programs */
    if (kind == CACHED && found(at, end, "rm [") == NULL)
        kind = NONE;
    if (kind == OP_LIST && *at == 'g' && found(at, end, " profile-op ") == NULL)
        kind = KNOWN;
    if (kind == NONE && at > first && found(at, end, "buffer size") != NULL)
        kind = BUFFER;
    if (kind == NONE && at > first && begins(at, end, "size = ") &&
        found(at, end, " cells, ") != NULL && found(at, end, ", K (") != NULL)
        kind = KV_CACHE;
    if (kind == NONE && *at == '-' && found(at, end, " MiB free)") != NULL)
        kind = DEVICE;
    if (kind == NONE && begins(at, end, "Device ") && found(at, end, "compute") != NULL)
        kind = DEVICE;
    return kind;
}

/* Drops the escape sequences of a terminal; returns how many bytes are left. */
static int64_t plain(const uint8_t *at, const uint8_t *end, uint8_t *scratch)
{
    int64_t n = 0;
    while (at < end && n < SCRATCH) {
        if (*at != 0x1B) {
            scratch[n++] = *at++;
            continue;
        }
        at++;
        if (at < end && *at == '[') {
            for (at++; at < end && (*at < 0x40 || *at > 0x7E); at++)
                ;
            at += at < end;
        } else {
            at += at < end;
        }
    }
    return n;
}

/* Puts a piece of a line and those that continue it one behind the other, as far as they
 * are near; returns how many bytes these are. */
static int64_t joined(const uint8_t *text, const uint8_t *line_end, const uint8_t *stop,
                      int stream, uint8_t *scratch)
{
    int64_t n = smaller(line_end - text, SCRATCH);
    memcpy(scratch, text, (size_t)n);
    for (int i = 0; i < NEAR && line_end < stop && n < SCRATCH; i++) {
        const uint8_t *at = line_end + 1, *p;
        line_end = memchr(at, '\n', (size_t)(stop - at));
        line_end = line_end == NULL ? stop : line_end;
        Line line;
        int other, is_piece;
        p = cri_prefix(at, line_end, &line, &other, &is_piece);
        if (p == NULL || other != stream)
            continue;
        int64_t more = smaller(line_end - p, SCRATCH - n);
        memcpy(scratch + n, p, (size_t)more);
        n += more;
        if (!is_piece)
            break;
    }
    return n;
}

/* How many bytes of whole lines end where no line of CRI goes on behind them; 0 where
 * none of their ends is known to be one. `is_start`: no line goes on at their begin. */
EXPORT int64_t ggscope_log_lines_done(const uint8_t *data, int64_t n, int64_t is_start)
{
    const uint8_t *at = data, *stop = data + n;
    int64_t done = 0;
    int is_open[2] = {0, 0}, is_known[2] = {is_start != 0, is_start != 0};
    for (int64_t i = 1; at < stop; i++) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(stop - at));
        const uint8_t *line_end = feed == NULL ? stop : feed;
        Line line;
        int stream, is_piece;
        if (cri_prefix(at, line_end, &line, &stream, &is_piece) != NULL) {
            is_open[stream] = is_piece;
            is_known[stream] |= !is_piece;
        }
        for (int s = 0; s < 2; s++) /* pieces that are not near are not joined */
            is_known[s] |= i >= NEAR && !is_open[s];
        at = line_end + (feed != NULL);
        if (is_known[0] && is_known[1] && !is_open[0] && !is_open[1])
            done = at - data;
    }
    return done;
}

/* Scans whole lines of `data`; the rest after the last line end is one, too, where
 * `is_last`. Stops where the rows are full: `consumed` says how far it came. */
EXPORT int64_t ggscope_scan_log(const uint8_t *data, int64_t n, int64_t is_last,
                                int64_t capacity, const LogRows *rows, LogTally *tally)
{
    uint8_t scratch[SCRATCH], pieces[SCRATCH];
    const uint8_t *at = data, *stop = data + n;
    int64_t row = 0, n_lines = 0, n_known = 0, open_streams = tally->open_streams;
    while (at < stop && row < capacity) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(stop - at));
        if (feed == NULL && !is_last)
            break;
        const uint8_t *line_end = feed == NULL ? stop : feed;
        const uint8_t *piece = at;
        int64_t first_row = row, known_before = n_known, open_before = open_streams;
        int is_full = 0, stream, is_piece, is_joined = 0;
        Line dated;
        const uint8_t *text = cri_prefix(at, line_end, &dated, &stream, &is_piece);
        if (text != NULL) {
            int64_t bit = 1 << stream;
            if (open_streams & bit) { /* was read with the first piece */
                open_streams &= is_piece ? ~0 : ~bit;
                at = line_end + (feed != NULL);
                n_lines++;
                continue;
            }
            open_streams |= is_piece ? bit : 0;
            is_joined = is_piece;
        }
        /* Progress is written over itself: each piece between \r is a line. */
        while (piece < line_end && row < capacity) {
            const uint8_t *end = memchr(piece, '\r', (size_t)(line_end - piece));
            end = end == NULL || is_joined ? line_end : end;
            Line line = {piece, end, 0, NO_NUMBER, NO_NUMBER, NO_CLOCK, 0, 0,
                         NO_NUMBER};
            if (is_joined) {
                line.at = pieces;
                line.end = pieces + joined(text, line_end, stop, stream, pieces);
                line.time = dated.time, line.clock = dated.clock;
                piece = text;
            }
            int64_t n_looked = smaller(line.end - line.at, SCRATCH);
            int is_copy = memchr(line.at, 0x1B, (size_t)n_looked) != NULL;
            if (is_copy) {
                line.end = scratch + plain(line.at, line.end, scratch);
                line.at = scratch;
            }
            is_copy |= is_joined;
            int is_slog = 0;
            for (int i = 0; i < 5; i++) {
                int stripped = strip(&line);
                if (!stripped)
                    break;
                line.is_known |= line.clock == SINCE_START || stripped == 2;
                is_slog |= stripped == 2;
            }
            const uint8_t *behind = line.end;
            uint8_t kind = classify(&line, &behind);
            if (kind == NONE && is_slog && found(line.at, line.end, "msg=\"starting runner\""))
                kind = START;
            if (kind == KNOWN) {
                line.is_known = 1;
                kind = NONE;
            }
            if (kind == NONE && (line.level == 'W' || line.level == 'E'))
                kind = REMARK;
            line.is_known |= kind != NONE && kind != REMARK;
            n_known += line.is_known;
            int is_double = kind == STATISTICS || kind == THROUGHPUT;
            int n_new = kind == NONE ? 0 : 1 + is_double;
            if (row + n_new > capacity) {
                is_full = first_row > 0;
                n_new = 0;
                if (is_full)
                    break;
            }
            for (int64_t new = row; new < row + n_new; new++) {
                rows->line[new] = n_lines;
                rows->offset[new] = is_copy ? piece - data : line.at - data;
                rows->length[new] = (int32_t)smaller(
                    is_copy ? end - piece : line.end - line.at, 1 << 30);
                rows->time[new] = line.time;
                rows->clock[new] = line.clock;
                rows->level[new] = line.level;
                rows->kind[new] = kind;
                rows->slot[new] = line.slot;
                rows->task[new] = line.task;
                double *value = rows->value + new * VALUES;
                rows->n_values[new] = numbers(behind, line.end, value);
                if (kind == CACHED && line.p0 >= 0)
                    value[0] = (double)line.p0, rows->n_values[new] = 1;
            }
            if (n_new && kind == STATISTICS)
                draft_sums(behind, line.end, rows, row);
            else if (n_new && kind == THROUGHPUT)
                engine_means(behind, line.end, rows, row);
            else if (n_new && kind == SPECULATION)
                acceptance(behind, line.end, rows, row);
            row += n_new;
            piece = end + 1;
        }
        if (is_full || (piece < line_end && first_row > 0)) { /* all of the line again */
            row = first_row, n_known = known_before, open_streams = open_before;
            break;
        }
        at = line_end + (feed != NULL);
        n_lines++;
    }
    tally->n_rows = row, tally->n_lines = n_lines, tally->n_known = n_known;
    tally->consumed = at - data, tally->open_streams = open_streams;
    return row;
}

/* Numbers the tasks of each start of the program in the order in which they come:
 * place[i] is that of row i, first[number] its first row. Returns how many there are.
 * slots: n_slots zeros, a power of two, more than n. */
EXPORT int64_t ggscope_number_tasks(const int64_t *run, const int64_t *task, int64_t n,
                                    uint64_t secret, int32_t *slots, int64_t n_slots,
                                    int64_t *first, int64_t *place)
{
    const uint64_t mask = (uint64_t)n_slots - 1;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t slot =
            mixed(mixed(secret, (uint64_t)run[i]), (uint64_t)task[i]) & mask;
        for (;; slot = (slot + 1) & mask) {
            const int32_t number = slots[slot] - 1;
            if (number < 0) {
                first[count] = i;
                place[i] = count++;
                slots[slot] = (int32_t)count;
                break;
            }
            if (task[first[number]] == task[i] && run[first[number]] == run[i]) {
                place[i] = number;
                break;
            }
        }
    }
    return count;
}
