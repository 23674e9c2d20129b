// Tokens: what a program asks a model to compute, what a ubatch computes of it, and which
// of these tokens are generated.
//
// The functions that fill a batch and hand it over say the sequences of its tokens and
// which of them ask for output. The rows of a ubatch are rows of that batch, perhaps in
// another order. Where these functions are not seen, sequences are derived from positions.

#define _GNU_SOURCE
#include "tracer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BATCHES 256
#define MAX_CONTEXTS 64
#define MAX_SEQUENCES 256 // LLAMA_MAX_SEQ
#define MAX_ROWS (1u << 22)
#define SEQUENCE_WORDS (MAX_SEQUENCES / 64)
#define MAX_POSITIONS (1 << 20)
#define NO_NUMBER INT32_MIN

struct row {
    int32_t token, position; // NO_NUMBER: not known
    uint32_t asked;          // of a ubatch: which row of the batch it is
    uint8_t phase;           // enum graph_phase
    bool is_output, is_taken;
    uint64_t sequences[SEQUENCE_WORDS]; // bits
};

// The rows that one call computes.
struct batch {
    void *pointer; // llama_batch_ext that it mirrors
    struct row *rows;
    uint32_t n, room, next; // next: the row that the next row of a ubatch may be
    bool is_whole;          // every row was seen
    bool is_placed;         // positions are the program's own
    bool knows_outputs;
};

// A token that was computed.
struct computed_token {
    int32_t token; // NO_NUMBER: not known
    uint8_t phase;
};

// What a context holds of a sequence: positions up to `last`, of which those from
// `first_output` on gave output.
struct sequence {
    int32_t last, first_output;
    uint64_t changed;
    struct computed_token *tokens; // by position
    int32_t room;
};

struct context {
    uint64_t key; // llama_context, or else its scheduler
    uint64_t n_changes;
    struct sequence sequences[MAX_SEQUENCES];
};

static struct batch *batches[MAX_BATCHES];
static struct context *contexts[MAX_CONTEXTS];
static uint32_t n_contexts;
static _Atomic uint32_t next_ubatch, next_decode;
static pthread_mutex_t batches_lock = PTHREAD_MUTEX_INITIALIZER;
// Of llama_decode, which has no batch of its own; and rows of one ubatch.
static __thread struct batch handed_over, computed;

// ---- rows -------------------------------------------------------------------------------

static struct row *row_add(struct batch *batch, int32_t token, int32_t position)
{
    if (batch->n == batch->room) {
        uint32_t room = batch->room ? 2 * batch->room : 64;
        struct row *more =
            batch->n < MAX_ROWS ? realloc(batch->rows, room * sizeof *more) : NULL;
        if (more == NULL) {
            batch->is_whole = false;
            return NULL;
        }
        batch->rows = more;
        batch->room = room;
    }
    struct row *row = &batch->rows[batch->n++];
    *row = (struct row){.token = token, .position = position, .asked = UNKNOWN_U32};
    return row;
}

static void row_join(struct row *row, int32_t sequence)
{
    if (sequence >= 0 && sequence < MAX_SEQUENCES)
        row->sequences[sequence / 64] |= (uint64_t)1 << sequence % 64;
}

// Return a row's sequence from `from` on; -1 where there is none.
static int32_t row_sequence(const struct row *row, int32_t from)
{
    for (int32_t word = from / 64; word < SEQUENCE_WORDS; word++, from = word * 64) {
        uint64_t bits = row->sequences[word] >> from % 64;
        if (bits != 0)
            return from + __builtin_ctzll(bits);
    }
    return -1;
}

// ---- llama_batch_ext: mirrored as it is filled -------------------------------------------

static struct batch *batch_find(void *pointer, bool makes)
{
    struct batch **free_place = NULL;
    for (int i = 0; i < MAX_BATCHES; i++) {
        if (batches[i] != NULL && batches[i]->pointer == pointer)
            return batches[i];
        if (batches[i] == NULL && free_place == NULL)
            free_place = &batches[i];
    }
    if (!makes || free_place == NULL)
        return NULL;
    struct batch *made = calloc(1, sizeof *made);
    if (made != NULL)
        *made = (struct batch){
            .pointer = pointer, .is_whole = true, .is_placed = true, .knows_outputs = true};
    return *free_place = made;
}

void batch_cleared(void *pointer)
{
    pthread_mutex_lock(&batches_lock);
    struct batch *batch = batch_find(pointer, true);
    if (batch != NULL) {
        batch->n = 0;
        batch->is_whole = true;
    }
    pthread_mutex_unlock(&batches_lock);
}

void batch_freed(void *pointer)
{
    pthread_mutex_lock(&batches_lock);
    for (int i = 0; i < MAX_BATCHES; i++)
        if (batches[i] != NULL && batches[i]->pointer == pointer) {
            free(batches[i]->rows);
            free(batches[i]);
            batches[i] = NULL;
        }
    pthread_mutex_unlock(&batches_lock);
}

void batch_added(void *pointer, int32_t index, int32_t sequence, int32_t token)
{
    if (index < 0) // it was refused
        return;
    pthread_mutex_lock(&batches_lock);
    struct batch *batch = batch_find(pointer, true);
    if (batch != NULL) {
        // One that was filled before it was seen here is known again when it is cleared.
        batch->is_whole &= (uint32_t)index == batch->n;
        struct row *row = batch->is_whole ? row_add(batch, token, NO_NUMBER) : NULL;
        if (row != NULL)
            row_join(row, sequence);
    }
    pthread_mutex_unlock(&batches_lock);
}

void batch_changed(void *pointer, int32_t index, enum batch_change change, int32_t value)
{
    pthread_mutex_lock(&batches_lock);
    struct batch *batch = batch_find(pointer, false);
    if (batch != NULL && index >= 0 && (uint32_t)index < batch->n) {
        struct row *row = &batch->rows[index];
        if (change == BATCH_SEQUENCE)
            row_join(row, value);
        else if (change == BATCH_POSITION)
            row->position = value;
        else
            row->is_output = value != 0;
    }
    pthread_mutex_unlock(&batches_lock);
}

// ---- contexts: what their sequences hold -------------------------------------------------

static void context_clear(struct context *context)
{
    for (int i = 0; i < MAX_SEQUENCES; i++)
        free(context->sequences[i].tokens);
}

// With the lock held. NULL where memory is short.
static struct context *context_find(void)
{
    uint64_t key = around.owner ? around.owner : around.context;
    for (uint32_t i = 0; i < n_contexts; i++)
        if (contexts[i]->key == key)
            return contexts[i];
    struct context *context =
        n_contexts < MAX_CONTEXTS ? calloc(1, sizeof *context) : contexts[0];
    if (context == NULL)
        return NULL;
    if (n_contexts < MAX_CONTEXTS)
        contexts[n_contexts++] = context;
    context->key = key;
    context_clear(context);
    for (int i = 0; i < MAX_SEQUENCES; i++)
        context->sequences[i] = (struct sequence){.last = -1};
    return context;
}

// NULL where the sequence does not hold the position, or its token is not known.
static const struct computed_token *token_at(const struct sequence *sequence,
                                             int32_t position)
{
    if (position < 0 || position > sequence->last || position >= sequence->room ||
        sequence->tokens[position].token == NO_NUMBER)
        return NULL;
    return &sequence->tokens[position];
}

static void note_token(struct sequence *sequence, const struct row *row)
{
    if (row->position < 0 || row->position >= MAX_POSITIONS)
        return;
    if (row->position >= sequence->room) {
        int32_t room = sequence->room ? sequence->room : 64;
        while (room <= row->position)
            room *= 2;
        struct computed_token *more =
            realloc(sequence->tokens, (size_t)room * sizeof *more);
        if (more == NULL)
            return;
        for (int32_t i = sequence->room; i < room; i++)
            more[i] = (struct computed_token){.token = NO_NUMBER};
        sequence->tokens = more;
        sequence->room = room;
    }
    sequence->tokens[row->position] =
        (struct computed_token){.token = row->token, .phase = row->phase};
}

static bool gave_output(const struct sequence *sequence, int32_t position)
{
    return position >= 0 && position >= sequence->first_output &&
           position <= sequence->last;
}

// Tell whether the token before `position` was computed, and gave output.
static bool has_predecessor(const struct context *context, int32_t number,
                            int32_t position, bool needs_output)
{
    const struct sequence *own = &context->sequences[number];
    // A sequence that nothing was computed of may be a copy of another one.
    int32_t low = own->last >= 0 ? number : 0;
    int32_t high = own->last >= 0 ? number + 1 : MAX_SEQUENCES;
    for (int32_t i = low; i < high; i++) {
        const struct sequence *sequence = &context->sequences[i];
        if (needs_output ? gave_output(sequence, position - 1)
                         : position > 0 && position - 1 <= sequence->last)
            return true;
    }
    return false;
}

// Tell whether another context of the program generated the token of a row, or the one
// before it and gave output for it: a draft model computes what the model has accepted,
// and the model what was drafted. `before` is the token before it in its own context.
static bool is_generated_elsewhere(const struct context *own, int32_t number,
                                   const struct row *row, int32_t before)
{
    if (row->token == NO_NUMBER || before == NO_NUMBER)
        return false;
    for (uint32_t i = 0; i < n_contexts; i++) {
        const struct sequence *sequence = &contexts[i]->sequences[number];
        const struct computed_token *previous = token_at(sequence, row->position - 1);
        if (contexts[i] == own || previous == NULL || previous->token != before)
            continue;
        const struct computed_token *same = token_at(sequence, row->position);
        if (same != NULL && same->token == row->token && same->phase == PHASE_GENERATE)
            return true;
        if (previous->phase == PHASE_GENERATE && gave_output(sequence, row->position - 1))
            return true;
    }
    return false;
}

// Say of each row of a batch whether its token was generated.
//
// It was where the token before it in its sequence gave output, in an earlier call, and
// all rows of the sequence give output again: one token, or a draft that is verified. A
// prompt asks for the output of its last token only. Where nothing is known of outputs,
// one token that continues a sequence was generated, and of several it is not known.
// What another context generated is generated here too.
static void classify(struct batch *batch, const struct context *context)
{
    struct {
        int32_t head, last, token; // the row before
        uint32_t n, n_outputs, n_elsewhere;
        uint8_t phase;
    } runs[MAX_SEQUENCES] = {0};
    for (uint32_t i = 0; i < batch->n; i++) {
        const struct row *row = &batch->rows[i];
        int32_t number = row_sequence(row, 0);
        if (number < 0)
            continue;
        const struct computed_token *own =
            token_at(&context->sequences[number], row->position - 1);
        bool follows = runs[number].n > 0 && runs[number].last == row->position - 1;
        int32_t before = follows ? runs[number].token : own ? own->token : NO_NUMBER;
        runs[number].n_elsewhere += is_generated_elsewhere(context, number, row, before);
        runs[number].last = row->position;
        runs[number].token = row->token;
        if (runs[number].n++ == 0 || row->position < runs[number].head)
            runs[number].head = row->position;
        runs[number].n_outputs += row->is_output;
    }
    for (int32_t number = 0; number < MAX_SEQUENCES; number++) {
        int32_t head = runs[number].head;
        uint32_t n = runs[number].n;
        bool needs_output = batch->knows_outputs;
        if (n == 0 || head == NO_NUMBER)
            continue;
        bool continues = has_predecessor(context, number, head, needs_output);
        bool is_generated =
            (continues && (needs_output ? runs[number].n_outputs == n : n == 1)) ||
            (needs_output && runs[number].n_elsewhere == n);
        runs[number].phase = is_generated                 ? PHASE_GENERATE
                             : continues && !needs_output ? PHASE_UNKNOWN
                                                          : PHASE_PROMPT;
    }
    for (uint32_t i = 0; i < batch->n; i++) {
        int32_t number = row_sequence(&batch->rows[i], 0);
        batch->rows[i].phase = number < 0 ? PHASE_UNKNOWN : runs[number].phase;
    }
}

static void note_computed(struct sequence *sequence, const struct row *row, uint64_t time)
{
    bool follows = row->position <= sequence->last + 1;
    if (!row->is_output)
        sequence->first_output = row->position + 1;
    else if (!follows || sequence->first_output > row->position)
        sequence->first_output = row->position;
    sequence->last = row->position;
    sequence->changed = time;
    note_token(sequence, row);
}

// The context holds these rows now.
static void commit(const struct batch *batch, struct context *context)
{
    context->n_changes++;
    for (uint32_t i = 0; i < batch->n; i++) {
        const struct row *row = &batch->rows[i];
        if (row->position == NO_NUMBER)
            continue;
        for (int32_t number = row_sequence(row, 0);
             number >= 0 && number < MAX_SEQUENCES;
             number = row_sequence(row, number + 1))
            note_computed(&context->sequences[number], row, context->n_changes);
    }
}

// Where a batch names no positions each sequence goes on where it ended.
static void place_rows(struct batch *batch, const struct context *context)
{
    int32_t next[MAX_SEQUENCES];
    for (int i = 0; i < MAX_SEQUENCES; i++)
        next[i] = context->sequences[i].last + 1;
    for (uint32_t i = 0; i < batch->n; i++) {
        int32_t number = row_sequence(&batch->rows[i], 0);
        if (number >= 0)
            batch->rows[i].position = next[number]++;
    }
}

// ---- calls that hand a batch over ---------------------------------------------------------

static void begin_call(void *owner, struct batch *batch, bool is_encoded)
{
    around.owner = (uint64_t)(uintptr_t)owner;
    around.decode = next_decode++;
    around.batch = batch;
    if (batch == NULL)
        return;
    batch->next = 0;
    pthread_mutex_lock(&tracer_lock);
    struct context *context = context_find();
    for (uint32_t i = 0; i < batch->n; i++) {
        batch->rows[i].is_taken = false;
        batch->rows[i].phase = PHASE_PROMPT;
    }
    if (context == NULL) {
        around.batch = NULL;
    } else if (!is_encoded) {
        if (!batch->is_placed)
            place_rows(batch, context);
        classify(batch, context);
    }
    pthread_mutex_unlock(&tracer_lock);
}

void call_begins(void *owner, const struct llama_batch *batch, bool is_encoded)
{
    struct batch *made = &handed_over;
    made->n = 0;
    made->is_whole = made->knows_outputs = true;
    made->is_placed = batch->positions != NULL;
    for (int32_t i = 0; i < batch->n_tokens; i++) {
        struct row *row =
            row_add(made, batch->tokens ? batch->tokens[i] : NO_NUMBER,
                    batch->positions ? batch->positions[i] : NO_NUMBER);
        if (row == NULL)
            break;
        row->is_output =
            batch->outputs ? batch->outputs[i] != 0 : i + 1 == batch->n_tokens;
        // Without lists all tokens are of sequence 0.
        bool is_listed = batch->n_sequences && batch->sequences && batch->sequences[i];
        for (int32_t k = 0; is_listed && k < batch->n_sequences[i]; k++)
            row_join(row, batch->sequences[i][k]);
        if (!is_listed)
            row_join(row, 0);
    }
    begin_call(owner, made->is_whole && made->n > 0 ? made : NULL, is_encoded);
}

void call_begins_with(void *owner, void *pointer, bool is_encoded)
{
    pthread_mutex_lock(&batches_lock);
    struct batch *batch = batch_find(pointer, false);
    pthread_mutex_unlock(&batches_lock);
    // Nobody fills a batch while it is computed.
    bool is_known = batch != NULL && batch->is_whole && batch->n > 0;
    begin_call(owner, is_known ? batch : NULL, is_encoded);
}

void call_ends(bool is_computed, bool is_encoded)
{
    if (around.batch != NULL && is_computed && !is_encoded) {
        pthread_mutex_lock(&tracer_lock);
        struct context *context = context_find();
        if (context != NULL)
            commit(around.batch, context);
        pthread_mutex_unlock(&tracer_lock);
    }
    around.batch = NULL;
    around.owner = 0;
    around.decode = UNKNOWN_U32;
}

// ---- ubatches -----------------------------------------------------------------------------

// Find the row of a batch that each row of `computed` is.
static void match_rows(struct batch *batch)
{
    for (uint32_t i = 0; i < computed.n; i++) {
        struct row *row = &computed.rows[i];
        for (uint32_t tried = 0; tried < batch->n; tried++) {
            uint32_t at = (batch->next + tried) % batch->n;
            struct row *asked = &batch->rows[at];
            bool has_position = batch->is_placed && row->position != NO_NUMBER;
            bool has_token = row->token != NO_NUMBER && asked->token != NO_NUMBER;
            if (asked->is_taken || (has_token && row->token != asked->token) ||
                (has_position && row->position != asked->position))
                continue;
            asked->is_taken = true;
            row->asked = at;
            batch->next = at + 1;
            break;
        }
    }
}

// The program took tokens out of a context's memory: positions are others than assumed.
static void move_sequence(struct batch *batch, int32_t number, int32_t by)
{
    for (uint32_t i = 0; i < batch->n; i++)
        if (row_sequence(&batch->rows[i], 0) == number)
            batch->rows[i].position += by;
}

// The rows of `computed` are as the call asked for them.
static void take_asked(struct batch *batch, const struct context *context)
{
    bool is_moved = false;
    for (uint32_t i = 0; i < computed.n && !batch->is_placed; i++) {
        const struct row *row = &computed.rows[i];
        if (row->asked == UNKNOWN_U32 || row->position == NO_NUMBER)
            continue;
        const struct row *asked = &batch->rows[row->asked];
        int32_t by = row->position - asked->position;
        if (by != 0)
            move_sequence(batch, row_sequence(asked, 0), by);
        is_moved |= by != 0;
    }
    if (is_moved)
        classify(batch, context);
    for (uint32_t i = 0; i < computed.n; i++) {
        struct row *row = &computed.rows[i];
        if (row->asked == UNKNOWN_U32)
            continue;
        uint32_t at = row->asked;
        *row = batch->rows[at];
        row->asked = at;
    }
}

// Return the sequence that a row goes on with; `ends` are the last positions of all.
static int32_t continued(const struct context *context, const int32_t *ends,
                         const struct row *row, int32_t before)
{
    int32_t empty = -1, oldest = 0, rewound = -1, running = -1;
    for (int32_t i = 0; i < MAX_SEQUENCES; i++) {
        const struct sequence *sequence = &context->sequences[i];
        bool is_used = ends[i] != NO_NUMBER;
        if (!is_used && sequence->last >= 0 && sequence->last == row->position - 1)
            return i;
        if (is_used && ends[i] == row->position - 1)
            running = running == before ? running : i;
        if (!is_used && sequence->last < 0 && empty < 0)
            empty = i;
        if (!is_used && sequence->last >= row->position && row->position > 0 &&
            (rewound < 0 || sequence->last < context->sequences[rewound].last))
            rewound = i;
        if (!is_used && sequence->changed < context->sequences[oldest].changed)
            oldest = i;
    }
    return running >= 0   ? running
           : rewound >= 0 ? rewound
           : empty >= 0   ? empty
                          : oldest;
}

// No call states the rows of `computed`: positions show which go on with which.
static void derive_sequences(const struct context *context)
{
    int32_t ends[MAX_SEQUENCES], before = -1;
    for (int i = 0; i < MAX_SEQUENCES; i++)
        ends[i] = NO_NUMBER;
    for (uint32_t i = 0; i < computed.n; i++) {
        struct row *row = &computed.rows[i];
        if (row->position < 0)
            continue;
        before = continued(context, ends, row, before);
        ends[before] = row->position;
        row_join(row, before);
    }
}

static const int32_t *numbers_of(const struct ggml_tensor *tensor)
{
    return tensor != NULL && tensor->ne[0] > 0 ? tensor->data : NULL;
}

static void read_rows(const struct build *build)
{
    const int32_t *tokens = numbers_of(build->tokens);
    const int32_t *positions = numbers_of(build->positions);
    int64_t n = tokens ? build->tokens->ne[0] : build->n_rows;
    computed.n = 0;
    computed.knows_outputs = build->outputs != NULL;
    for (int64_t i = 0; i < n; i++)
        if (row_add(&computed, tokens ? tokens[i] : NO_NUMBER,
                    positions ? positions[i] : NO_NUMBER) == NULL)
            break;
    const int32_t *outputs = numbers_of(build->outputs);
    for (int64_t i = 0; outputs != NULL && i < build->outputs->ne[0]; i++)
        if (outputs[i] >= 0 && (uint32_t)outputs[i] < computed.n)
            computed.rows[outputs[i]].is_output = true;
}

static uint32_t phase_of_rows(void)
{
    uint32_t n[PHASE_MIXED] = {0};
    for (uint32_t i = 0; i < computed.n; i++)
        n[computed.rows[i].phase]++;
    if (n[PHASE_UNKNOWN] > 0 || computed.n == 0)
        return PHASE_UNKNOWN;
    return n[PHASE_PROMPT] == 0     ? PHASE_GENERATE
           : n[PHASE_GENERATE] == 0 ? PHASE_PROMPT
                                    : PHASE_MIXED;
}

static void write_rows(struct frame *frame)
{
    struct ubatch_rows body = {
        .n_rows = computed.n,
        .decode = around.decode,
        .knowledge = around.batch != NULL     ? KNOWS_SEQUENCES | KNOWS_OUTPUTS
                     : computed.knows_outputs ? KNOWS_OUTPUTS
                                              : 0,
        .owner = around.owner,
    };
    for (uint32_t i = 0; i < computed.n; i++)
        for (int k = 0; k < SEQUENCE_WORDS; k++)
            body.n_sequences +=
                (uint32_t)__builtin_popcountll(computed.rows[i].sequences[k]);
    frame_add(frame, &body, sizeof body);
    for (uint32_t i = 0; i < computed.n; i++) {
        const struct row *row = &computed.rows[i];
        uint8_t bits = (uint8_t)(row->phase | (row->is_output ? ROW_OUTPUT : 0));
        frame_add(frame, &bits, 1);
    }
    frame_add(frame, NULL, -(size_t)computed.n & 3);
    for (uint32_t i = 0; i < computed.n; i++) {
        uint32_t n = 0;
        for (int k = 0; k < SEQUENCE_WORDS; k++)
            n += (uint32_t)__builtin_popcountll(computed.rows[i].sequences[k]);
        frame_add(frame, &n, sizeof n);
    }
    for (uint32_t i = 0; i < computed.n; i++)
        for (int32_t number = row_sequence(&computed.rows[i], 0);
             number >= 0 && number < MAX_SEQUENCES;
             number = row_sequence(&computed.rows[i], number + 1))
            frame_add(frame, &number, sizeof number);
}

static void write_ubatch(const struct build *build, bool has_tokens)
{
    uint32_t n = computed.n, n_all = build->positions ? (uint32_t)build->positions->ne[0] : 0;
    struct event_ubatch body = {around.ubatch, has_tokens ? n : 0, n_all, around.phase,
                                around.context};
    struct frame frame = {0};
    frame_begin(&frame, EVENT_UBATCH, monotonic_ns());
    frame_add(&frame, &body, sizeof body);
    for (uint32_t i = 0; has_tokens && i < n; i++)
        frame_add(&frame, &computed.rows[i].token, 4);
    if (n_all > 0)
        frame_add(&frame, build->positions->data, 4 * (size_t)n_all);
    write_rows(&frame);
    frame_write(&frame);
}

// With the lock held. A scheduler's computation is one ubatch, in however many graphs:
// where these are of one node each, one has the tokens, and another the positions.
void ubatch_write(const struct build *build)
{
    const int32_t *tokens = numbers_of(build->tokens);
    const int32_t *positions = numbers_of(build->positions);
    if (tokens == NULL && positions == NULL)
        return;
    bool is_call = around.decode != UNKNOWN_U32 && around.decode == around.ubatch_decode;
    bool is_same = around.ubatch != UNKNOWN_U32 &&
                   (around.is_scheduled || (is_call && tokens == NULL));
    if (is_same && (around.has_positions || positions == NULL))
        return;
    struct context *context = context_find();
    if (context == NULL)
        return;
    struct batch *asked = around.batch;
    if (!is_same) {
        read_rows(build);
        if (asked != NULL)
            match_rows(asked);
    }
    for (uint32_t i = 0; positions != NULL && i < computed.n; i++)
        computed.rows[i].position = positions[i];
    if (asked != NULL) {
        take_asked(asked, context);
    } else if (positions != NULL) {
        derive_sequences(context);
        classify(&computed, context);
        commit(&computed, context);
    }
    around.phase = phase_of_rows();
    around.has_positions = positions != NULL;
    around.ubatch_decode = around.decode;
    around.ubatch = is_same ? around.ubatch : next_ubatch++;
    write_ubatch(build, tokens != NULL || is_same);
}

// In a child of fork: what other threads fill is not computed there.
void ubatches_forget(void)
{
    batches_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (uint32_t i = 0; i < n_contexts; i++) {
        context_clear(contexts[i]);
        free(contexts[i]);
    }
    n_contexts = 0;
    next_ubatch = next_decode = 0;
}
