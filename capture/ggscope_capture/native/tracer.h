// What the parts of the tracer say to each other. ring.h has what others read.

#ifndef GGSCOPE_TRACER_H
#define GGSCOPE_TRACER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifndef __APPLE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "ring.h"

// The oldest names of what newer libraries of C moved: any since 2.17 will do.
#if defined(__linux__) && defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
#elif defined(__linux__) && defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dlclose,dlclose@GLIBC_2.17");
__asm__(".symver dladdr,dladdr@GLIBC_2.17");
#endif

#define TRACER_VERSION 1
#define EXPORTED __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// ---- ggml, as far as it is known here; ggml_api.c checks that it is so --------------

struct ggml_tensor {
    int32_t type;
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int32_t op;
    int32_t op_params[16];
    int32_t flags;
    struct ggml_tensor *src[TENSOR_SOURCES];
    struct ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
};

struct ggml_cgraph;

// Beginnings only.
struct ggml_cplan {
    size_t work_size;
    uint8_t *work_data;
    int n_threads;
};

struct ggml_compute_params {
    int ith, nth;
};

struct ggml_init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
};

struct gguf_init_params {
    bool no_alloc;
    void **ctx;
};

// 56 bytes by value. Members may be NULL.
struct llama_batch {
    int32_t n_tokens;
    int32_t *tokens;
    float *embeddings;
    int32_t *positions;
    int32_t *n_sequences;
    int32_t **sequences;
    int8_t *outputs;
};

// 24 bytes by value, of which nothing is used.
struct llama_embd {
    const float *data;
    size_t n_rows, n_columns;
};

#define GGML_FLAG_COMPUTE 16

// Functions of ggml that are called here; NULL where the program has none.
struct ggml_api {
    int (*graph_n_nodes)(struct ggml_cgraph *);
    struct ggml_tensor *(*graph_node)(struct ggml_cgraph *, int);
    const char *(*op_name)(int);
    const char *(*type_name)(int);
    int64_t (*blck_size)(int);
    size_t (*type_size)(int);
    size_t (*nbytes)(const struct ggml_tensor *);
    const char *(*version)(void);
    void *(*init)(struct ggml_init_params);
    void (*free)(void *);
    struct ggml_tensor *(*new_tensor_2d)(void *, int, int64_t, int64_t);
    struct ggml_tensor *(*add)(void *, struct ggml_tensor *, struct ggml_tensor *);
    struct ggml_tensor *(*view_1d)(void *, struct ggml_tensor *, int64_t, size_t);
    struct ggml_tensor *(*set_name)(struct ggml_tensor *, const char *);
    const char *(*get_name)(const struct ggml_tensor *);
    void *(*get_data)(const struct ggml_tensor *);
    void (*set_input)(struct ggml_tensor *);
    struct ggml_tensor *(*get_tensor)(void *, const char *);
    int64_t (*gguf_n_tensors)(const void *);
    const char *(*gguf_tensor_name)(const void *, int64_t);
    size_t (*gguf_tensor_offset)(const void *, int64_t);
    size_t (*gguf_tensor_size)(const void *, int64_t);
    int (*gguf_tensor_type)(const void *, int64_t);
    size_t (*gguf_data_offset)(const void *);
    const char *(*buffer_name)(void *);
    void *(*buffer_base)(void *);
    size_t (*buffer_size)(void *);
    int (*buffer_usage)(void *);
    bool (*buffer_is_host)(void *);
    const char *(*backend_name)(void *);
    void *(*backend_device)(void *);
    const char *(*dev_description)(void *);
    size_t (*dev_count)(void);
    void *(*dev_get)(size_t);
    const char *(*dev_name)(void *);
    void *(*dev_reg)(void *);
    void *(*reg_address)(void *, const char *);
    const char *(*type_of_buffers_name)(void *);
};
extern struct ggml_api ggml;

enum layout { LAYOUT_UNTRIED, LAYOUT_KNOWN, LAYOUT_REFUSED };
enum layout ggml_layout(void);

static inline const struct ggml_tensor *storage_of(const struct ggml_tensor *tensor)
{
    return tensor->view_src ? tensor->view_src : tensor;
}

// ---- elf.c, macho.c: where loaded objects call what -----------------------------------

struct symbol {
    const char *name;
    void **found;  // where the address of the function goes; kept once it is set
    void *wrapper; // what the slots of all objects shall hold; NULL: only look up
    unsigned n_slots; // changed now; BY_SOURCE beside them where the program asked
    // Called by the library that has it: directly, where objects are Mach-O. A slot of
    // another object is left alone there, since it would report some calls only.
    bool is_internal;
};
#define BY_SOURCE (1u << 31)

// Look through what is loaded now: set `found`, redirect slots. Idempotent.
void objects_attach(struct symbol *symbols, size_t n);
// Whether objects came or went since the last objects_attach.
bool objects_changed(void);
#ifdef __APPLE__
// Do the same now, and again whenever an object comes.
void objects_watch(struct symbol *symbols, size_t n);
#endif

// ---- ring.c -------------------------------------------------------------------------

struct ring {
    struct ring_control *control;
    struct ring_lane *lanes;
    struct ring_record *records;
    uint8_t *events;
    uint64_t lane_mask; // lane_capacity - 1
    uint32_t n_lanes;
    uint32_t lanes_used;
    bool overwrites;
};
extern struct ring *_Atomic the_ring; // NULL until the first graph

uint64_t monotonic_ns(void);

static inline uint32_t thread_number(void)
{
#ifdef __APPLE__
    uint64_t number = 0;
    pthread_threadid_np(NULL, &number);
    return (uint32_t)number;
#else
    return (uint32_t)syscall(SYS_gettid);
#endif
}

// What orders everything but records: definitions, events, builds, buffers, lanes.
extern pthread_mutex_t tracer_lock;

// All of these with the lock held.
struct ring *ring_make(uint32_t n_threads);
void ring_forget(void); // after a fork: the mapping belongs to the parent
struct ring_lane *ring_lane_take(struct ring *ring, uint32_t slot, uint32_t ith);

// A frame in the making, on the heap, grown as needed. Not for the hot path.
struct frame {
    uint8_t *bytes;
    size_t size, room;
};
void frame_begin(struct frame *frame, enum frame_type type, uint64_t time);
void *frame_add(struct frame *frame, const void *data, size_t size);
void frame_text(struct frame *frame, const char *text, size_t length);
bool frame_finish(struct frame *frame); // its size is written; false: memory was short
void frame_write(struct frame *frame); // into the event lane
void events_write(const uint8_t *bytes, size_t size); // a whole frame, likewise

// ---- definitions.c: the file beside the ring -------------------------------------------

// Whether a definition is written again in every generation of definitions.
enum lasts {
    ONCE,
    LIKE_BUILD,  // when a graph uses it again
    FROM_TABLE,  // by lasting_write
    WHOLE_BUILD, // when a graph uses it again; counted, since each generation needs it
    WITH_RING,
    WITH_PROCESS, // in the rings of its children, too
};
extern uint32_t definitions_generation;

// All of these with the lock held. False: it could not be written, for now.
bool frame_define(struct frame *frame, enum lasts lasts);
void note(const char *text, enum lasts lasts);
void builds_lost(int64_t more); // never written so far
// Before a graph: begin a new generation where the present one is long, and give those
// back that nobody needs.
void definitions_renew(void);
bool definitions_begin(const char *ring_path, struct ring_control *control);
void definitions_forget(void); // after a fork
uint64_t longest_file(void); // beyond, the system ends the program by a signal

// ---- clock.c: stamps ----------------------------------------------------------------

struct time_base {
    uint64_t ticks, ns;
    uint64_t factor; // ns per tick, times 2^32
};
extern enum ring_clock clock_kind;
void clock_begin(void);
void clock_base(struct time_base *base, uint64_t not_before);
void clock_write(const struct time_base *base);

#define CPU_UNKNOWN 0xFFFu

#if defined(__x86_64__)
static inline uint64_t ticks_and_core(uint32_t *core)
{
#ifdef __APPLE__
    *core = CPU_UNKNOWN;
    return __builtin_ia32_rdtsc();
#else
    uint32_t low, high, aux;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
    *core = aux; // Linux: core | node << 12
    return (uint64_t)high << 32 | low;
#endif
}
static inline uint64_t ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
#elif defined(__aarch64__)
static inline uint64_t ticks(void)
{
    uint64_t value;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
static inline uint64_t ticks_and_core(uint32_t *core)
{
    *core = CPU_UNKNOWN;
    return ticks();
}
#else
#define TICKS_ARE_NS 1
static inline uint64_t ticks(void) { return monotonic_ns(); }
static inline uint64_t ticks_and_core(uint32_t *core)
{
    *core = CPU_UNKNOWN;
    return ticks();
}
#endif

static inline uint64_t ticks_to_ns(const struct time_base *base, uint64_t ticks)
{
    return (uint64_t)((unsigned __int128)ticks * base->factor >> 32);
}

// ---- builds.c: what the nodes of a graph are, written once ---------------------------

enum step_flags {
    STEP_SKIP = 1,    // filtered
    STEP_EXPERTS = 2, // MUL_MAT_ID whose choice is copied
    STEP_ROUTER = 4,  // GET_ROWS that gathers the scores of a choice
    STEP_FUSED = 8,   // runs within the step before it
};

// Choices are written in frames of so many rows at most.
#define EXPERT_ROWS 256
#define EXPERT_HEAD (sizeof(struct ring_frame) + sizeof(struct event_experts) + 8)

struct step {
    const struct ggml_tensor *tensor;
    uint32_t node;
    uint16_t op;
    uint16_t flags;
};

struct build {
    uint64_t signature;
    uint32_t number;
    uint32_t generation; // of definitions that it was written in last; 0: never
    uint32_t n_users;    // slots that hold it
    bool is_lost;        // it was never written, and counted so
    uint64_t last_used;
    struct build *next;  // of the same place in the table, or to be freed
    uint32_t n_nodes;
    uint32_t n_steps; // computed nodes in order, fused ones among them
    uint32_t n_fused;
    uint32_t n_recorded; // steps that make a record on each thread: none is filtered
    uint32_t filter_seq;
    uint32_t n_slots; // of the hash, a power of two
    struct step *steps; // n_steps and one without tensor
    uint32_t *hash;     // index + 1 into steps
    int32_t *layers;    // of steps
    const struct ggml_tensor *tokens, *positions, *outputs;
    int64_t n_rows; // of a ubatch, where positions show it
    size_t expert_bytes; // what one graph copies of choices and scores, at most
};

uint64_t graph_signature(struct ggml_cgraph *graph, int n_nodes);
// With the lock held. A build that the caller holds until it lets go of it, and that the
// present generation of definitions has; NULL where memory is short.
struct build *build_take(struct ggml_cgraph *graph, int n_nodes, uint64_t signature);
void build_write(struct build *build, struct ggml_cgraph *graph); // anew, where needed
void build_drop(struct build *build); // NULL: nothing
void builds_forget(void);
void build_filter(struct build *build, const struct ring_control *control);
int64_t step_find(const struct build *build, const struct ggml_tensor *tensor);
// Around a look at builds that another thread may drop: they are freed when nobody looks.
void builds_look_begins(void);
void builds_look_ends(void);

// ---- changes.c: builds by what differs ------------------------------------------------

// With the lock held. False: it could not be written, for now.
bool build_define(const struct def_build *head, const struct def_tensor *tensors,
                  const char *const *names);
void wholes_forget(void);

// ---- registry.c: models, buffers, backends; all with the lock held ----------------------

void model_read(const void *gguf, const char *path, void *context);
void buffer_seen(void *buffer, bool is_new);
void buffer_gone(void *buffer);
void buffer_used(void *buffer, int usage);
uint32_t buffer_number(void *buffer);
uint32_t backend_number(void *backend); // written when it is new; 0: not known
void lasting_write(void); // buffers, backends and mappings that there are now
extern uint32_t n_buffers_freed; // so often a number of a buffer became another's
void op_write(int op);
void type_write(int type);
void models_locate(void); // where the models' files lie in memory now

struct weight_place {
    uint64_t offset; // in the model's file
    uint32_t model, index;
    bool by_place; // found by its address, not by its name
};
bool weight_find(const struct ggml_tensor *tensor, struct weight_place *place);

// ---- backends.c -----------------------------------------------------------------------

void backends_wrap(void);
void begins_wrap(void);
bool begins_are_seen(void);

// ---- ubatches.c -----------------------------------------------------------------------

enum batch_change { BATCH_SEQUENCE, BATCH_POSITION, BATCH_OUTPUT };

// What is done to a llama_batch_ext. `index` is what the function returned or was given.
void batch_added(void *batch, int32_t index, int32_t sequence, int32_t token);
void batch_changed(void *batch, int32_t index, enum batch_change change, int32_t value);
void batch_cleared(void *batch);
void batch_freed(void *batch);
// Around a call that computes a batch: a llama_batch, or a llama_batch_ext.
void call_begins(void *owner, const struct llama_batch *batch, bool is_encoded);
void call_begins_with(void *owner, void *batch, bool is_encoded);
void call_ends(bool is_computed, bool is_encoded);
// With the lock held: write the ubatch that a graph computes, if it has its inputs.
void ubatch_write(const struct build *build);
void ubatches_forget(void);

// ---- hooks.c ------------------------------------------------------------------------

void attach(void);
// Of the calling thread: what surrounds the graph that it computes.
struct surroundings {
    uint64_t context; // ggml_backend_sched_t
    uint64_t owner;   // llama_context
    uint64_t backend;
    struct batch *batch; // of the call; NULL: not known
    uint32_t decode;     // the call that computes a batch; UNKNOWN_U32: none is seen
    uint32_t ubatch;     // the newest one, its call and its phase
    uint32_t ubatch_decode;
    uint32_t phase;
    uint32_t split;
    uint32_t n_computed; // graphs that were written
    bool is_scheduled;   // within a scheduler's computation
    bool has_positions;  // of the ubatch
};
extern __thread struct surroundings around;
bool fusion_is_hooked(void);
bool is_hooked(const char *name); // whether any slot of this function was changed
extern bool is_source_mode;

// ---- trace.c: spans -----------------------------------------------------------------

int graph_traced(struct ggml_cgraph *graph, struct ggml_cplan *plan,
                 int (*compute)(struct ggml_cgraph *, struct ggml_cplan *));
int backend_graph_traced(void *backend, struct ggml_cgraph *graph,
                         int (*compute)(void *, struct ggml_cgraph *));
int sched_graph_traced(void *sched, struct ggml_cgraph *graph,
                       int (*compute)(void *, struct ggml_cgraph *));
void op_begins(const struct ggml_compute_params *params,
               const struct ggml_tensor *op, bool is_fused);
// The same where the thread's index is not known, nor whether it is computed yet.
void op_asked(const void *op);
void barrier_passed(void *threadpool, void (*barrier)(void *));
void slots_forget(void);
extern _Atomic uint32_t n_computing;

#endif
