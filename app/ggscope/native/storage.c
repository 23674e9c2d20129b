/* Lines about storage: blkparse, biosnoop (bcc and bpftrace), fatrace, page faults of
 * perf, and the reads that strace saw. One row per line that says something of a
 * request; other events are counted by their letter.
 *
 * Sources: blkparse_fmt.c of blktrace 1.2.0 (default format), tools/biosnoop.py of bcc,
 * libbpf-tools/biosnoop.c, tools/biosnoop.bt of bpftrace, fatrace.c, builtin-script.c and
 * builtin-trace.c of perf, file descriptors and arguments as strace prints them.
 *
 * Nothing here allocates or keeps state; the caller gives whole lines.
 */
#define _GNU_SOURCE
#include <string.h>

#include "native.h"
#include "strace_text.h"
#include "text_lines.h"

/* readers/storage/lines.py: Form; model/storage.py: IoKind */
enum { BLKPARSE, BIOSNOOP, FATRACE, FAULT_SCRIPT, FAULT_TRACE, STRACE, N_FORMS };
enum { READ, WRITE, DISCARD, FLUSH, OTHER, MAP, MAJOR_FAULT, MINOR_FAULT, FAULT };
enum { TEXTS_PER_ROW = 2, SECTOR = 512, LONGEST_NAME = 64 };
#define FURTHEST ((int64_t)1 << 61)
#define NS 1000000000

typedef struct {
    int64_t *line, *offset; /* of the line in the block */
    int64_t *time;          /* ns of its clock */
    uint8_t *clock, *form, *action, *kind, *phase;
    int64_t *handle;        /* major << 20 | minor, or a file descriptor; -1 none */
    int64_t *place;         /* sector, offset in a file, address; -1 unknown */
    int64_t *size;          /* bytes, -1 unknown */
    int64_t *extra;         /* sector before a remap, ns of a request; -1 none */
    int32_t *pid;           /* -1 unknown */
    int32_t *name, *path;   /* numbers of texts, -1 none */
} IoRows;

typedef struct {
    int64_t forms;              /* a bit for each to look for */
    int64_t n_before, n_behind; /* columns of biosnoop before and behind COMM */
    const uint8_t *codes;       /* a letter for each of them */
} IoLayout;

typedef struct {
    int64_t n_rows, n_lines, consumed, n_events, n_other, first_other;
    int64_t n_broken, first_broken, n_hidden;
    int64_t *actions;           /* int64[256], events by their letter */
    int64_t *forms;             /* int64[N_FORMS], events by their form */
} IoTally;

typedef struct {
    Piece name, path;
    int64_t time, handle, place, size, extra, pid;
    uint8_t clock, form, action, kind, phase;
} Row;

/* What became of a line. */
enum { NO_MATCH, COUNTED, TAKEN, BROKEN };

static void clear(Row *row)
{
    memset(row, 0, sizeof *row);
    row->handle = row->place = row->size = row->extra = row->pid = -1;
    row->phase = 'X';
}

static const uint8_t *word_end(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at != ' ' && *at != '\t')
        at++;
    return at;
}

/* A number without a sign, the rest of the word; 0 where it is none. */
static int whole_number(Piece piece, int64_t *value)
{
    return piece.at < piece.end &&
           unsigned_number(piece.at, piece.end, value) == piece.end;
}

/* Decimal digits with a fraction, times `unit` ns; 0 where it is none. */
static int ns_of(Piece piece, int64_t unit, int64_t *value)
{
    int64_t whole;
    int32_t nano;
    if (piece.at == piece.end || !is_digit(*piece.at) ||
        decimal(piece.at, piece.end, &whole, &nano) != piece.end ||
        whole > FURTHEST / unit)
        return 0;
    *value = whole * unit + (int64_t)((__int128)nano * unit / NS);
    return 1;
}

static const uint8_t *hexadecimal(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    const uint8_t *p = at;
    for (*value = 0; p < end && p - at < 16; p++) {
        const uint8_t low = *p | 0x20;
        const int digit = is_digit(*p) ? *p - '0'
                        : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0)
            break;
        *value = *value << 4 | (uint64_t)digit;
    }
    return p == at ? NULL : p;
}

/* What letters such as RA, WS, D, FWS say. */
static uint8_t kind_of(Piece rwbs)
{
    int has_flush = 0;
    for (const uint8_t *p = rwbs.at; p < rwbs.end; p++) {
        if (*p == 'D')
            return DISCARD;
        if (*p == 'W')
            return WRITE;
        if (*p == 'R')
            return READ;
        has_flush |= *p == 'F';
    }
    return has_flush ? FLUSH : OTHER;
}

/* ---- blkparse ---- */

/* "259,0    0       13     0.000003199  4242  D   R 26403736 + 256 [llama-cli]" */
static int take_blkparse(const uint8_t *at, const uint8_t *end, Row *row)
{
    int64_t major, minor, cpu, sequence, seconds, sectors;
    int32_t nano;
    const uint8_t *p = unsigned_number(blanks(at, end), end, &major);
    if (p == NULL || p >= end || *p != ',')
        return NO_MATCH;
    p = unsigned_number(p + 1, end, &minor);
    if (p == NULL || p >= end || *p != ' ')
        return NO_MATCH;
    p = unsigned_number(blanks(p, end), end, &cpu);
    if (p == NULL || p >= end || *p != ' ')
        return NO_MATCH;
    p = unsigned_number(blanks(p, end), end, &sequence);
    if (p == NULL || p >= end || *p != ' ')
        return NO_MATCH;
    p = blanks(p, end);
    if (p >= end || !is_digit(*p))
        return BROKEN;
    p = decimal(p, end, &seconds, &nano);
    if (p == NULL || p >= end || *p != ' ' || seconds > FURTHEST / NS)
        return BROKEN;
    p = unsigned_number(blanks(p, end), end, &row->pid);
    if (p == NULL || p >= end || *p != ' ')
        return BROKEN;
    p = blanks(p, end);
    Piece action = {p, word_end(p, end)};
    const int64_t n = action.end - action.at;
    if (n < 1 || n > 2 || action.end == end || is_digit(*action.at) ||
        major >= 1 << 20 || minor >= 1 << 20 || row->pid > INT32_MAX)
        return BROKEN;
    for (int64_t i = 0; i < n; i++)
        if (!((action.at[i] | 0x20) >= 'a' && (action.at[i] | 0x20) <= 'z'))
            return BROKEN;
    row->form = BLKPARSE;
    row->time = seconds * NS + nano;
    row->clock = OF_FILE;
    row->action = *action.at;
    row->handle = major << 20 | minor;
    if (n > 1 || !memchr("QDCRA", row->action, 5))
        return COUNTED;
    p = blanks(action.end, end);
    Piece rwbs = {p, word_end(p, end)};
    row->kind = kind_of(rwbs);
    p = unsigned_number(blanks(rwbs.end, end), end, &row->place);
    if (p == NULL || row->place > FURTHEST / SECTOR) { /* a flush has no sectors */
        row->place = -1;
        return COUNTED;
    }
    p = blanks(p, end);
    if (p >= end || *p != '+')
        return COUNTED;
    p = unsigned_number(blanks(p + 1, end), end, &sectors);
    if (p == NULL || sectors > FURTHEST / SECTOR)
        return BROKEN;
    row->size = sectors * SECTOR;
    p = blanks(p, end);
    if (row->action == 'A') {
        const uint8_t *const bracket = found(p, end, "<- (");
        const uint8_t *const close =
            bracket == NULL ? NULL : memchr(bracket, ')', (size_t)(end - bracket));
        if (close == NULL ||
            unsigned_number(blanks(close + 1, end), end, &row->extra) == NULL)
            return BROKEN;
        return TAKEN;
    }
    if (row->action != 'C' && p < end && *p == '[') {
        const uint8_t *const close = memrchr(p, ']', (size_t)(end - p));
        if (close == NULL)
            return BROKEN;
        row->name = (Piece){p + 1, close};
    } else if (p < end && *p == '[') {
        const uint8_t *const close = memchr(p, ']', (size_t)(end - p));
        if (close == NULL)
            return BROKEN;
        row->phase = p[1] == '0' && close == p + 2 ? 'X' : 'F'; /* an error */
    } else {
        return BROKEN;
    }
    return TAKEN;
}

/* ---- biosnoop ---- */

static int set_column(Row *row, uint8_t code, Piece word)
{
    int64_t number;
    switch (code) {
    case 's': /* seconds */
        return ns_of(word, NS, &row->time);
    case 'm': /* milliseconds */
        return ns_of(word, 1000000, &row->time);
    case 'P':
        return whole_number(word, &row->pid) && row->pid <= INT32_MAX;
    case 'D':
        row->path = word;
        return !is_digit(*word.at);
    case 'T':
        row->kind = kind_of(word);
        for (const uint8_t *p = word.at; p < word.end; p++)
            if (*p < 'A' || *p > 'Z')
                return 0;
        return 1;
    case 'S':
        if (*word.at == '-')
            return 1;
        return whole_number(word, &row->place) && row->place <= FURTHEST / SECTOR;
    case 'B':
        if (!whole_number(word, &number) || number > FURTHEST)
            return 0;
        row->size = number;
        return 1;
    case 'L':
        return ns_of(word, 1000000, &row->extra);
    case 'Q':
        return ns_of(word, 1000000, &row->handle);
    default:
        return 1;
    }
}

/* Columns that are no words with blanks in them, but COMM, which may hold some. */
static int take_biosnoop(const uint8_t *at, const uint8_t *end, const IoLayout *layout,
                         Row *row)
{
    const uint8_t *p = blanks(at, end);
    if (p >= end || !is_digit(*p))
        return NO_MATCH;
    row->form = BIOSNOOP;
    row->kind = OTHER;
    for (int64_t i = 0; i < layout->n_before; i++) {
        const uint8_t *const stop = word_end(p, end);
        if (p == stop || !set_column(row, layout->codes[i], (Piece){p, stop}))
            return NO_MATCH;
        p = blanks(stop, end);
    }
    const uint8_t *tail = end;
    for (int64_t i = layout->n_behind - 1; i >= 0; i--) {
        while (tail > p && (tail[-1] == ' ' || tail[-1] == '\t'))
            tail--;
        const uint8_t *start = tail;
        while (start > p && start[-1] != ' ' && start[-1] != '\t')
            start--;
        if (start == tail ||
            !set_column(row, layout->codes[layout->n_before + i], (Piece){start, tail}))
            return NO_MATCH;
        tail = start;
    }
    while (tail > p && (tail[-1] == ' ' || tail[-1] == '\t'))
        tail--;
    row->name = (Piece){p, tail};
    row->clock = OF_FILE;
    row->action = 'b';
    return TAKEN;
}

/* ---- fatrace ---- */

/* "[HH:MM:SS.ffffff ]llama-cli(4242)[ [uid:gid]]: RO /models/m.gguf" */
static int take_fatrace(const uint8_t *at, const uint8_t *end, Row *row)
{
    at = blanks(at, end);
    int64_t whole = 0;
    int32_t nano = 0;
    const uint8_t *p = clock_of(at, end, &whole, &nano, &row->clock);
    row->clock = p == NULL ? OF_ROW_BEFORE : row->clock;
    at = p == NULL ? at : blanks(p, end);
    const uint8_t *const look = at + smaller(end - at, LONGEST_NAME);
    const uint8_t *slash = found(at, end, ": ");
    for (; slash != NULL; slash = found(slash + 2, end, ": ")) {
        const uint8_t *stop = slash;
        if (stop > at && stop[-1] == ']') {
            const uint8_t *const open = memrchr(at, '[', (size_t)(stop - at));
            stop = open != NULL && open > at && open[-1] == ' ' ? open - 1 : stop;
        }
        const uint8_t *open;
        if (stop - at < 3 || stop[-1] != ')' ||
            (open = memrchr(at, '(', (size_t)(stop - at))) == NULL || open == at ||
            open >= look || unsigned_number(open + 1, stop, &row->pid) != stop - 1)
            continue;
        const uint8_t *const letters = slash + 2, *letter = letters;
        for (; letter < end && memchr("RWOCDMT<>+", *letter, 10); letter++)
            ;
        if (letter == letters || letter >= end || *letter != ' ' || letter - letters > 8)
            return NO_MATCH;
        row->path = (Piece){blanks(letter, end), end};
        if (row->path.at >= end || *row->path.at != '/' || row->pid > INT32_MAX)
            return NO_MATCH;
        row->name = (Piece){at, open};
        row->form = FATRACE;
        row->action = 'f';
        row->kind = memchr(letters, 'R', (size_t)(letter - letters)) ? READ
                  : memchr(letters, 'W', (size_t)(letter - letters)) ? WRITE : OTHER;
        row->phase = memchr(letters, 'O', (size_t)(letter - letters)) ? 'O'
                   : memchr(letters, 'C', (size_t)(letter - letters)) ? 'C' : 'X';
        row->time = whole * NS + nano;
        return TAKEN;
    }
    return NO_MATCH;
}

/* ---- page faults of perf ---- */

static Piece trimmed(const uint8_t *at, const uint8_t *end)
{
    at = blanks(at, end);
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (Piece){at, end};
}

/* "llama-cli  4242[/4243] [003] 12345.678901:" before what `perf script` prints. */
static int take_perf_head(const uint8_t *at, const uint8_t *colon, Row *row)
{
    const uint8_t *p = colon;
    while (p > at && p[-1] != ' ')
        p--;
    Piece time = {p, colon};
    if (memchr(time.at, '.', (size_t)(colon - time.at)) == NULL ||
        !ns_of(time, NS, &row->time))
        return 0;
    Piece head = trimmed(at, p);
    if (head.end > head.at && head.end[-1] == ']') { /* the processor */
        const uint8_t *const open = memrchr(head.at, '[', (size_t)(head.end - head.at));
        if (open == NULL)
            return 0;
        head = trimmed(head.at, open);
    }
    const uint8_t *word = head.end;
    while (word > head.at && word[-1] != ' ')
        word--;
    int64_t pid, tid;
    p = unsigned_number(word, head.end, &pid);
    if (p != NULL && p < head.end && *p == '/') {
        p = unsigned_number(p + 1, head.end, &tid);
        if (p == NULL)
            return 0;
    }
    if (p == NULL || p != head.end || pid > INT32_MAX)
        return 0;
    row->pid = pid;
    row->name = trimmed(head.at, word);
    row->clock = OF_FILE;
    return 1;
}

/* "PERF_RECORD_MMAP2 4242/4242: [0x7f00(0x1000) @ 0x2000 08:01 12 0]: r--p /m.gguf" */
static int take_mapping(const uint8_t *at, const uint8_t *end, Row *row)
{
    uint64_t start, length, from;
    const uint8_t *p = found(at, end, "[0x");
    if (p == NULL || (p = hexadecimal(p + 3, end, &start)) == NULL ||
        !begins(p, end, "(0x") || (p = hexadecimal(p + 3, end, &length)) == NULL ||
        (p = found(p, end, "@ ")) == NULL)
        return BROKEN;
    p = begins(p + 2, end, "0x") ? p + 4 : p + 2;
    if ((p = hexadecimal(p, end, &from)) == NULL || (p = found(p, end, "]: ")) == NULL)
        return BROKEN;
    p = blanks(word_end(blanks(p + 3, end), end), end);
    if (p >= end || start >= (uint64_t)FURTHEST || length >= (uint64_t)FURTHEST ||
        from >= (uint64_t)FURTHEST)
        return BROKEN;
    row->form = FAULT_SCRIPT;
    row->action = 'M';
    row->kind = MAP;
    row->place = (int64_t)start, row->size = (int64_t)length, row->extra = (int64_t)from;
    row->path = (Piece){p, end};
    return TAKEN;
}

static int take_fault_script(const uint8_t *at, const uint8_t *end, Row *row)
{
    at = blanks(at, end);
    const uint8_t *const faults = found(at, end, "-faults:");
    const uint8_t *const faults_u = faults == NULL ? found(at, end, "-faults:u:") : faults;
    const uint8_t *const map = faults_u == NULL ? found(at, end, "PERF_RECORD_MMAP") : NULL;
    const uint8_t *const mark = faults_u == NULL ? map : faults_u;
    if (mark == NULL)
        return NO_MATCH;
    /* The time is the last word with a colon before the name of the event. */
    const uint8_t *colon = mark;
    while (colon > at && !(colon[-1] == ':' && colon < end && *colon == ' '))
        colon--;
    if (colon <= at + 1 || !take_perf_head(at, colon - 1, row))
        return NO_MATCH;
    if (map != NULL)
        return take_mapping(map, end, row);
    row->form = FAULT_SCRIPT;
    row->action = 'F';
    const uint8_t *name = mark;
    while (name > at && (is_word(name[-1]) || name[-1] == '-'))
        name--;
    row->kind = begins(name, end, "major") ? MAJOR_FAULT
              : begins(name, end, "minor") ? MINOR_FAULT : FAULT;
    const uint8_t *p = blanks(word_end(mark, end), end);
    uint64_t address, ip;
    const uint8_t *const stop = hexadecimal(p, end, &address);
    if (stop == NULL || (stop < end && *stop != ' '))
        return TAKEN;
    /* With -d two addresses: of the data, then of the instruction. */
    const uint8_t *close = NULL, *second = NULL;
    for (const uint8_t *q = stop; q < end; q++) {
        if (*q == ')' && close == NULL)
            close = q;
        const uint8_t *const after = q > stop && q[-1] == ' ' && is_word(*q)
            ? hexadecimal(q, end, &ip) : NULL;
        if (after != NULL && after - q >= 4 && (after == end || *after == ' ')) {
            second = q;
            break;
        }
    }
    if (second == NULL || address >= (uint64_t)FURTHEST)
        return TAKEN; /* the instruction's address alone */
    row->place = (int64_t)address;
    if (close != NULL && close < second) {
        const uint8_t *const open = memrchr(p, '(', (size_t)(close - p));
        if (open != NULL && open + 1 < close && open[1] == '/')
            row->path = (Piece){open + 1, close};
    }
    return TAKEN;
}

/* "  12.345 (         ): llama-cli/4242 majfault [f+0x30] => /m.gguf@0xb0b8 (d.)" */
static int take_fault_trace(const uint8_t *at, const uint8_t *end, Row *row)
{
    at = blanks(at, end);
    const uint8_t *fault = found(at, end, "fault [");
    if (fault == NULL || fault - at < 4)
        return NO_MATCH;
    const uint8_t *const open = memchr(at, '(', (size_t)(fault - at));
    const uint8_t *const head = open == NULL ? NULL : found(open, fault, "):");
    if (head == NULL || !ns_of(trimmed(at, open), 1000000, &row->time))
        return NO_MATCH;
    row->kind = !memcmp(fault - 3, "maj", 3) ? MAJOR_FAULT
              : !memcmp(fault - 3, "min", 3) ? MINOR_FAULT : FAULT;
    Piece who = trimmed(head + 2, fault - 3);
    const uint8_t *const slash =
        who.at == who.end ? NULL : memrchr(who.at, '/', (size_t)(who.end - who.at));
    if (slash != NULL && whole_number((Piece){slash + 1, who.end}, &row->pid) &&
        row->pid <= INT32_MAX)
        row->name = (Piece){who.at, slash};
    else
        row->pid = -1;
    row->form = FAULT_TRACE;
    row->action = 'F';
    row->clock = OF_FILE;
    const uint8_t *arrow = found(fault, end, "] => ");
    if (arrow == NULL)
        return BROKEN;
    Piece what = trimmed(arrow + 5, end);
    const uint8_t *const mark = what.at == what.end
        ? NULL : memrchr(what.at, '@', (size_t)(what.end - what.at));
    uint64_t offset;
    if (mark != NULL && begins(mark + 1, what.end, "0x") &&
        hexadecimal(mark + 3, what.end, &offset) != NULL && offset < (uint64_t)FURTHEST) {
        row->path = (Piece){what.at, mark};
        row->place = (int64_t)offset;
    }
    return TAKEN;
}

/* ---- strace ---- */

typedef struct {
    const char *name;
    uint8_t action, kind;
    int8_t offset_from_end; /* which argument is the offset, from the last; -1 none */
} Call;

static const Call CALLS[] = {
    {"read", 'r', READ, -1},     {"readv", 'r', READ, -1},
    {"pread64", 'p', READ, 0},   {"pread", 'p', READ, 0},
    {"preadv", 'p', READ, 0},    {"preadv2", 'p', READ, 1},
    {"openat", 'o', OTHER, -1},  {"open", 'o', OTHER, -1},
    {"openat2", 'o', OTHER, -1}, {"close", 'c', OTHER, -1},
    {"lseek", 'l', OTHER, -1},   {"_llseek", 'l', OTHER, -1},
    {"mmap", 'm', MAP, 0},       {"mmap2", 'm', MAP, 0},
};
enum { N_CALLS = sizeof CALLS / sizeof CALLS[0] };

static int is_named(Piece piece, const char *name)
{
    const int64_t n = (int64_t)strlen(name);
    return piece.end - piece.at == n && !memcmp(piece.at, name, (size_t)n);
}

/* A number behind a comma, or the only argument; takes 0x. */
static int take_number(Piece piece, int64_t *value)
{
    piece = trimmed(piece.at, piece.end);
    uint64_t hex;
    if (begins(piece.at, piece.end, "0x")) {
        if (hexadecimal(piece.at + 2, piece.end, &hex) != piece.end ||
            hex >= (uint64_t)FURTHEST)
            return 0;
        *value = (int64_t)hex;
        return 1;
    }
    return whole_number(piece, value);
}

/* The argument that is `back` from the last one; empty where there are fewer. */
static Piece argument(Piece all, int back)
{
    const uint8_t *end = all.end;
    for (;;) {
        const uint8_t *from = end; /* a path may hold commas */
        if (end > all.at && end[-1] == '>')
            from = memrchr(all.at, '<', (size_t)(end - all.at));
        from = from == NULL ? end : from;
        const uint8_t *const comma =
            from > all.at ? memrchr(all.at, ',', (size_t)(from - all.at)) : NULL;
        if (!back--)
            return (Piece){comma == NULL ? all.at : comma + 1, end};
        if (comma == NULL)
            return (Piece){all.at, all.at};
        end = comma;
    }
}

/* "3</models/m.gguf>" */
static void take_handle(Piece piece, Row *row)
{
    piece = trimmed(piece.at, piece.end);
    int64_t handle;
    const uint8_t *const p = unsigned_number(piece.at, piece.end, &handle);
    if (p == NULL)
        return;
    row->handle = handle;
    if (p < piece.end && *p == '<' && piece.end[-1] == '>' && piece.end - p > 2)
        row->path = (Piece){p + 1, piece.end - 1};
}

static Piece first_argument(Piece all)
{
    const uint8_t *stop = all.at;
    int is_quoted = 0, is_path = 0;
    for (; stop < all.end && (is_quoted || is_path || *stop != ','); stop++) {
        is_quoted ^= *stop == '"' && (stop == all.at || stop[-1] != '\\');
        is_path = !is_quoted && (is_path ? *stop != '>' : *stop == '<');
    }
    return (Piece){all.at, stop};
}

static void take_open(const StraceLine *line, Row *row)
{
    take_handle(line->result, row);
    if (row->path.at != NULL)
        return;
    const Piece all = line->arguments;
    const uint8_t *const quote =
        all.end > all.at ? memchr(all.at, '"', (size_t)(all.end - all.at)) : NULL;
    const uint8_t *const close =
        quote == NULL ? NULL : memchr(quote + 1, '"', (size_t)(all.end - quote - 1));
    if (close != NULL && close > quote + 1)
        row->path = (Piece){quote + 1, close};
}

static int take_strace(const uint8_t *at, const uint8_t *end, Row *row, IoTally *tally)
{
    StraceLine line;
    if (!strace_line(at, end, &line))
        return NO_MATCH;
    row->form = STRACE;
    if (line.whole > FURTHEST / NS)
        return BROKEN;
    row->time = line.whole * NS + line.nano;
    row->clock = line.clock;
    if (begins(line.name.at, line.name.end, "io_uring_enter"))
        tally->n_hidden += line.phase != 'E';
    const Call *call = NULL;
    for (int i = 0; i < N_CALLS && call == NULL; i++)
        if (line.phase != 'I' && is_named(line.name, CALLS[i].name))
            call = &CALLS[i];
    /* `strace -r` counts from the line before, whatever call it was. */
    if (call == NULL) {
        row->action = 'x';
        return line.clock == SINCE_LINE_BEFORE ? TAKEN : COUNTED;
    }
    if (line.is_cut)
        return BROKEN;
    row->action = call->action;
    row->kind = call->kind;
    row->phase = line.phase;
    row->pid = line.tid >= 0 && line.tid <= INT32_MAX ? line.tid : -1;
    if (line.duration >= 0 && line.duration < 9e18)
        row->extra = (int64_t)(line.duration + 0.5);
    if (line.is_failed) {
        row->phase = line.phase == 'E' ? 'e' : 'f';
        return TAKEN;
    }
    const Piece all = line.arguments;
    const int has_arguments = all.at != NULL;
    if (call->action == 'o') {
        if (line.phase != 'B')
            take_open(&line, row);
        return TAKEN;
    }
    if (has_arguments && line.phase != 'E' && call->action != 'm')
        take_handle(first_argument(all), row);
    if (call->action == 'm') { /* all that goes in stands before <unfinished ...> */
        if (!has_arguments)
            return TAKEN;
        take_handle(argument(all, 1), row);
        take_number(argument(all, 4), &row->size);
        take_number(argument(all, 0), &row->place);
        return TAKEN;
    }
    if (line.phase == 'B')
        return TAKEN;
    if (call->action == 'l')
        take_number(line.result, &row->place);
    else if (call->action != 'c')
        take_number(line.result, &row->size);
    if (call->offset_from_end >= 0 && has_arguments)
        take_number(argument(all, call->offset_from_end), &row->place);
    return TAKEN;
}

/* ---- all of them ---- */

static int take_line(const uint8_t *at, const uint8_t *end, const IoLayout *layout,
                     Row *row, IoTally *tally)
{
    int what = NO_MATCH;
    for (int form = 0; form < N_FORMS && what == NO_MATCH; form++) {
        if (!(layout->forms >> form & 1))
            continue;
        clear(row);
        what = form == BLKPARSE ? take_blkparse(at, end, row)
             : form == BIOSNOOP ? take_biosnoop(at, end, layout, row)
             : form == FATRACE ? take_fatrace(at, end, row)
             : form == FAULT_SCRIPT ? take_fault_script(at, end, row)
             : form == FAULT_TRACE ? take_fault_trace(at, end, row)
                                   : take_strace(at, end, row, tally);
    }
    return what;
}

/* Read whole lines; `is_last`: the text may end without a line end. */
EXPORT int64_t ggscope_scan_storage(const uint8_t *data, int64_t size, int64_t is_last,
                                    int64_t capacity, const IoLayout *layout,
                                    const IoRows *rows, TextTable *texts, IoTally *tally)
{
    int64_t n = 0, n_lines = 0, at = 0, moved = INT64_MIN, moved_device = -1;
    int64_t *const actions = tally->actions, *const forms = tally->forms;
    memset(tally, 0, sizeof *tally);
    tally->actions = actions, tally->forms = forms;
    tally->first_other = tally->first_broken = -1;
    while (at < size && n < capacity &&
           texts->count + TEXTS_PER_ROW <= texts->capacity) {
        const uint8_t *const feed = memchr(data + at, '\n', (size_t)(size - at));
        if (feed == NULL && !is_last)
            break;
        const uint8_t *const line_end = feed == NULL ? data + size : feed;
        const uint8_t *end = line_end, *from = data + at;
        while (end > from && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
            end--;
        Row row;
        const int what =
            from == end ? COUNTED : take_line(from, end, layout, &row, tally);
        if (what == BROKEN && !tally->n_broken++)
            tally->first_broken = n_lines;
        else if (what == NO_MATCH && !tally->n_other++)
            tally->first_other = n_lines;
        if (from < end && (what == TAKEN || what == COUNTED)) {
            tally->n_events++;
            actions[row.action]++;
            forms[row.form]++;
        }
        int is_kept = what == TAKEN;
        if (is_kept && row.form == BLKPARSE && row.action == 'A') {
            /* Where a partition begins: once a scan, not for each request. */
            is_kept = moved != row.place - row.extra || moved_device != row.handle;
            moved = row.place - row.extra, moved_device = row.handle;
        }
        if (is_kept) {
            rows->line[n] = n_lines;
            rows->offset[n] = from - data;
            rows->time[n] = row.time;
            rows->clock[n] = row.clock;
            rows->form[n] = row.form;
            rows->action[n] = row.action;
            rows->kind[n] = row.kind;
            rows->phase[n] = row.phase;
            rows->handle[n] = row.handle;
            rows->place[n] = row.place;
            rows->size[n] = row.size;
            rows->extra[n] = row.extra;
            rows->pid[n] = (int32_t)row.pid;
            rows->name[n] = number_of(texts, data, row.name);
            rows->path[n] = number_of(texts, data, row.path);
            n++;
        }
        at = line_end - data + (feed != NULL);
        n_lines++;
    }
    tally->n_rows = n, tally->n_lines = n_lines, tally->consumed = at;
    return n;
}

/* The lowest place that is free for each of requests in order of start; those beyond the
 * last place share it. Returns how many places were taken. */
EXPORT int64_t ggscope_storage_places(const int64_t *start, const int64_t *end, int64_t n,
                                      int64_t *busy, int64_t most, int32_t *place)
{
    int64_t n_taken = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k < n_taken && busy[k] > start[i])
            k++;
        if (k == most)
            k--;
        else if (k == n_taken)
            n_taken++;
        busy[k] = end[i] > start[i] ? end[i] : start[i] + 1;
        place[i] = (int32_t)k;
    }
    return n_taken;
}
