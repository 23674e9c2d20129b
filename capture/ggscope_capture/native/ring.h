// The ring: the file into which a traced program writes what it does.
//
// This header is the one source of truth of the layout. ring_format.py says the same to
// Python and a test compares the two; resources/docs/ring-format.md explains it to people.
//
// Two files belong together: the ring itself (PATH: control page, lanes, events, records)
// and the definitions (PATH.defs: what events and records refer to by number). Both are
// little-endian. Every number counts from 0; a number of all ones means "not known".
//
// Version 2: definitions come in generations, of which the oldest are given back, and
// builds may be described by what differs from another one.

#ifndef GGSCOPE_RING_H
#define GGSCOPE_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC "GGSRING1"
#define DEFS_MAGIC "GGSDEFS1"
#define DEFS_SUFFIX ".defs"
#define RING_VERSION 2
#define RING_BYTE_ORDER 0x01020304u
#define RING_PAGE 4096
#define UNKNOWN_U32 0xFFFFFFFFu
#define UNKNOWN_U64 0xFFFFFFFFFFFFFFFFull

enum ring_flags {
    RING_OVERWRITE = 1, // a full lane loses its oldest records; else its newest
};

enum ring_state {
    RING_RUNS = 1,
    RING_ENDED = 2,    // the program went through exit()
    RING_REPLACED = 3, // the program called exec: another one runs under its pid
};

// What the spans of this ring are. Chosen after the first graph, may only go down.
enum ring_mode {
    MODE_UNKNOWN = 0,
    MODE_THREADS = 1, // begin, end and wait of every op on every thread
    MODE_BEGINS = 2,  // begins of ops on every thread, no ends
    MODE_GRAPHS = 3,  // whole graphs on the thread that computes them
};

enum ring_door {
    DOOR_UNKNOWN = 0,
    DOOR_BACKEND_PATH = 1,
    DOOR_PRELOAD = 2,
    DOOR_DYLD = 3,
    DOOR_SOURCE = 4,
};

enum ring_clock {
    CLOCK_IS_MONOTONIC = 0, // clock_gettime for every stamp
    CLOCK_IS_TSC = 1,       // the processor's counter, put right at every graph
    CLOCK_IS_CNTVCT = 2,
};

// The first page. `magic` is written last: a file without it is not ready.
struct ring_control {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint32_t header_size; // RING_PAGE
    uint32_t record_size;
    uint32_t lane_size;
    uint32_t n_lanes;
    uint64_t lanes_offset;   // struct ring_lane[n_lanes]
    uint64_t lane_capacity;  // records of one lane; a power of two
    uint64_t records_offset; // lane k begins at records_offset + k * capacity * 32
    uint64_t events_offset;
    uint64_t events_capacity; // bytes; a power of two
    uint64_t file_size;
    uint32_t pid;
    uint32_t flags;      // enum ring_flags
    uint64_t t0_mono;    // CLOCK_MONOTONIC and CLOCK_REALTIME of one moment, ns
    uint64_t t0_real;
    uint64_t start_time; // of the process, as in /proc/PID/stat: a pid may be reused
    uint32_t clock;      // enum ring_clock
    uint32_t door;       // enum ring_door
    uint32_t tracer_version;
    uint32_t reserved0;
    char identity[16]; // random; the same in the definitions
    char reserved1[112];
    char program[256]; // its file, UTF-8, NUL-terminated, cut where longer
    char reserved2[512];

    // From 1024: what the viewer writes. The tracer looks here once per graph.
    uint32_t enabled;
    uint32_t sample_every; // trace one graph of so many; 0 and 1: all
    uint32_t reader_pid;   // who empties the ring; 0: nobody
    uint32_t filter_seq;   // counts changes of what follows
    uint64_t reader_heartbeat; // CLOCK_MONOTONIC, ns
    uint64_t op_mask[4];       // ops left out: bit n of op number n
    uint64_t lane_mask[8];     // thread indexes left out
    uint32_t layer_first;      // both 0: all layers
    uint32_t layer_last;
    uint64_t defs_tail; // definitions before this place of PATH.defs are in safety
    char reserved3[888];

    // From 2048: what the tracer writes beside its records.
    uint64_t heartbeat; // CLOCK_MONOTONIC of the last graph, ns
    uint64_t graphs;    // begun
    uint64_t skipped;   // graphs left out by `enabled` and `sample_every`
    uint32_t state;     // enum ring_state
    uint32_t mode;      // enum ring_mode
    uint64_t no_lane;   // records lost because all lanes were taken
    uint64_t no_node;   // ops seen that no build names
    uint64_t defs_bytes; // ever written, behind the head of PATH.defs
    uint64_t defs_lost;  // definitions that could not be written, and were not since
    uint64_t defs_first; // where in PATH.defs the oldest generation begins; 0: at its head

    char reserved4[440];

    // From 2560: the event lane, the writer's line and the reader's.
    uint64_t events_head; // bytes ever written; the place is head % capacity
    uint64_t events_dropped;
    uint64_t events_dropped_bytes;
    uint64_t events_oldest; // where the oldest frame that is whole begins
    char reserved5[32];
    uint64_t events_tail; // bytes ever read
    char reserved6[56];
    char reserved7[1408];
};

enum lane_state { LANE_FREE = 0, LANE_USED = 1 };

// A lane has one writer at any moment: thread `ith` of computation slot `slot`.
struct ring_lane {
    uint32_t state;
    uint16_t slot; // computations that run at the same time have different slots
    uint16_t ith;  // the thread index that ggml gives
    uint32_t tid;  // last thread of the system that wrote here
    uint32_t reserved0;
    uint64_t reserved1[6];

    uint64_t head; // records ever written; record k lies at k % capacity
    uint64_t dropped;
    uint64_t last_ns; // end of the newest record's wait
    uint64_t reserved2[5];

    uint64_t tail; // records ever read
    uint64_t reserved3[7];

    uint64_t reserved4[8];
};

enum record_bits {
    CPU_BITS = 12,  // all ones: not known
    NODE_SHIFT = 12, // NUMA node, 8 bits
    BARRIER_SHIFT = 20, // barriers within the op, 8 bits, no more than 255
    RECORD_FUSED = 1u << 28,    // the next computed node ran with this one
    RECORD_BEGIN = 1u << 29,    // the end is not known; op_ns and wait_ns are 0
    RECORD_GRAPH = 1u << 30,    // a whole graph; `node` is UNKNOWN_U32
    RECORD_MIGRATED = 1u << 31, // ended on another core than it began on
};

struct ring_record {
    uint64_t t0;      // CLOCK_MONOTONIC, ns
    uint32_t op_ns;   // begin to the entry of the last barrier; cut at 4.29 s
    uint32_t wait_ns; // within that barrier
    uint32_t node;    // index in the build of its graph
    uint32_t graph;   // of event GRAPH_BEGIN
    uint16_t lane;
    uint16_t op;    // ggml's number; definition OP names it
    uint32_t extra; // enum record_bits
};

// Frames of events and definitions. A frame never wraps: where it would not fit before
// the end of the event lane, a frame of type FRAME_PAD fills the rest (8 bytes may be all
// of it). Sizes count the head and are multiples of 8.
struct ring_frame {
    uint32_t size;
    uint16_t type;
    uint16_t reserved;
    uint64_t time; // CLOCK_MONOTONIC, ns (FRAME_PAD may lack it)
};

// Texts within frames: u16 length, then UTF-8 as the program gave it, no NUL.
enum frame_type {
    FRAME_PAD = 0,
    // Definitions, in PATH.defs
    DEF_PROGRAM = 1, // u32 pid; text executable, ggml version, command line (NUL between)
    DEF_OP = 2,      // u32 number; text name
    DEF_TYPE = 3,    // u32 number, u32 block, u64 bytes of a block; text name
    DEF_MODEL = 4,   // u32 model, u32 n_tensors, u64 data offset, u64 size; text path
    DEF_WEIGHT = 5,  // struct def_weight; text name
    DEF_BUFFER = 6,  // struct def_buffer; text name
    DEF_BUILD = 7,   // struct def_build, then n_tensors times struct def_tensor + text
    DEF_LANE = 8,    // u32 lane, u16 slot, u16 ith, u32 tid
    DEF_CHECK = 9,   // struct def_check
    DEF_NOTE = 11,   // u32 code; text: what a person should know
    DEF_MAPPING = 12, // struct def_mapping; text path: a model file in memory
    DEF_BACKEND = 13, // struct def_backend; text name, device, its description
    DEF_BUILD_LIKE = 14, // struct def_build, struct def_like, then its columns
    // Events, in the ring
    EVENT_CLOCK = 32,       // u64 mono, u64 real, u64 ticks, u64 first ticks
    EVENT_GRAPH_BEGIN = 33, // struct event_graph
    EVENT_GRAPH_END = 34,   // struct event_graph_end
    EVENT_UBATCH = 35,      // struct event_ubatch, i32 tokens[n], i32 positions[n], rows
    EVENT_EXPERTS = 36,     // struct event_experts, i32 ids[rows * used]
    EVENT_ROUTER = 37,      // struct event_experts, i32 ids[], f32 scores[]
    EVENT_HOST = 38,        // struct event_host
    EVENT_COPY = 39,        // struct event_copy
    // Among the definitions, because none of them may be lost:
    EVENT_BUFFER = 40, // u32 buffer, u32 kind (1 alloc, 2 free, 3 usage), u64 usage
};

struct def_weight {
    uint32_t model;
    uint32_t index; // in the file
    uint32_t type;  // DEF_TYPE
    uint32_t n_dims;
    uint64_t ne[4];
    uint64_t offset; // from the beginning of the file
    uint64_t size;
};

struct def_buffer {
    uint32_t buffer; // a number of its own; addresses are used again
    uint32_t usage;  // 0 any, 1 weights, 2 compute; UNKNOWN_U32 if not recorded
    uint64_t pointer; // ggml_backend_buffer_t
    uint64_t base;
    uint64_t size;
};

struct def_backend {
    uint32_t backend; // from 1; addresses are used again
    uint32_t reserved;
    uint64_t pointer; // ggml_backend_t
};

struct def_build {
    uint32_t build;
    uint32_t n_nodes;
    uint32_t n_tensors;  // n_nodes, then what the nodes read and is no node
    uint32_t n_computed; // nodes that run, less the fused ones
    uint32_t n_fused;
    uint32_t reserved;
    uint64_t signature;
};

#define TENSOR_SOURCES 10

enum tensor_flags {
    TENSOR_COMPUTED = 1, // the node runs
    TENSOR_FUSED = 2,    // runs within the computed node before it
    TENSOR_WEIGHT = 4,   // `model` and `weight` say which
    TENSOR_BY_MAPPING = 8, // found by its address in the mapped file, not by name
    TENSOR_VIEW = 16,
};

struct def_tensor {
    uint16_t op;
    uint16_t type;
    uint32_t flags;       // enum tensor_flags
    uint32_t ggml_flags;
    int32_t layer;        // -1: none
    uint64_t pointer;     // struct ggml_tensor *
    uint64_t data;
    uint64_t bytes;
    uint64_t offset;      // in the model file; UNKNOWN_U64 where not a weight
    uint32_t model;
    uint32_t weight;      // index in the file
    uint32_t buffer;      // DEF_BUFFER
    uint32_t view_source; // index among the tensors of this build
    uint64_t ne[4];
    uint64_t nb[4];
    uint32_t sources[TENSOR_SOURCES]; // indexes; UNKNOWN_U32 where there is none
};

enum check_result {
    CHECK_EQUAL = 1,
    CHECK_MISSING = 2, // computed nodes without a record
    CHECK_NO_BARRIER = 3,
    CHECK_NOTHING = 4, // no op was seen at all
};

// A build that differs from a whole one of the same generation in values only: nodes,
// names, weights and sources are the same, and so is their order.
struct def_like {
    uint32_t like; // number of the whole build
    uint32_t n_columns;
}; // then for each: struct like_column, u64 from[n_moved], u64 to[n_moved],
   // u64 is[n_single], u32 at[n_single], zeros up to a multiple of 8

// Tensors that have `from` in the whole build have `to` here; `at` are indexes of
// tensors that have `is`, whatever they had. What is in neither is the same.
struct like_column {
    uint32_t column; // enum tensor_column
    uint32_t n_moved;
    uint32_t n_single;
    uint32_t reserved;
};

enum tensor_column {
    COLUMN_POINTER = 0,
    COLUMN_DATA = 1,
    COLUMN_BYTES = 2,
    COLUMN_OFFSET = 3,
    COLUMN_BUFFER = 4,
    COLUMN_NE = 5, // four of them
    COLUMN_NB = 9,
    N_COLUMNS = 13,
};

struct def_check {
    uint32_t graph;
    uint32_t result; // enum check_result
    uint32_t mode;   // chosen because of it
    uint32_t lanes;
    uint64_t expected;
    uint64_t found;
    uint64_t missing_nodes;
    uint64_t reserved;
};

struct def_mapping {
    uint64_t address;
    uint64_t size;
    uint64_t offset; // of `address` in the file
};

enum graph_phase {
    PHASE_UNKNOWN = 0,
    PHASE_PROMPT = 1,
    PHASE_GENERATE = 2,
    PHASE_MIXED = 3, // some tokens are of prompts, others are generated
};

struct event_graph {
    uint32_t graph;
    uint32_t build; // UNKNOWN_U32 where the graph is not recorded node by node
    uint32_t ubatch; // EVENT_UBATCH that it computes; UNKNOWN_U32
    uint16_t slot;
    uint16_t n_threads; // 0: not known
    uint16_t phase; // enum graph_phase
    uint16_t split; // number within its scheduler's computation
    uint32_t n_nodes;
    uint64_t context; // ggml_backend_sched_t, 0 where there is none
    uint64_t backend; // 0: not known
    uint32_t backend_number; // DEF_BACKEND; 0: not recorded
    uint32_t reserved;
};

struct event_graph_end {
    uint32_t graph;
    int32_t status;      // of ggml
    uint64_t n_records;  // written, or counted as dropped
    uint64_t n_expected; // nodes that filters leave, times threads that they leave
};

// Told again with the same number where more of it is known: the last one counts.
struct event_ubatch {
    uint32_t ubatch;
    uint32_t n_tokens;
    uint32_t n_positions; // as many, a multiple (M-RoPE), or 0
    uint32_t phase;       // of all rows
    uint64_t context;
};

// Behind tokens and positions; older tracers do not write it.
struct ubatch_rows {
    uint32_t n_rows;
    uint32_t decode;      // the call that computes it; UNKNOWN_U32
    uint32_t knowledge;   // enum ubatch_knowledge
    uint32_t n_sequences; // of all rows
    uint64_t owner;       // llama_context; 0: not known
}; // then u8 rows[n_rows] padded to 4, u32 counts[n_rows], i32 sequences[n_sequences]

enum ubatch_knowledge {
    KNOWS_SEQUENCES = 1, // as the program asked; else derived from positions
    KNOWS_OUTPUTS = 2,
};

enum row_bits {
    ROW_PHASE = 3,  // enum graph_phase
    ROW_OUTPUT = 4, // its output was asked for
};

struct event_experts {
    uint32_t graph;
    uint32_t node;
    int32_t layer;
    uint32_t rows;
    uint32_t used;
    uint32_t n_experts;
    uint32_t first_row;
    uint32_t reserved;
};

enum host_kind {
    HOST_DECODE = 1,  // llama_decode, llama_process, llama_encode
    HOST_COMPUTE = 2, // ggml_backend_sched_graph_compute_async
    HOST_ALLOC = 3,   // ggml_backend_sched_alloc_graph
    HOST_INPUT = 4,   // ggml_backend_tensor_set(_async) within a decode
    HOST_OUTPUT = 5,  // ggml_backend_tensor_get(_async)
    HOST_SYNC = 6,    // ggml_backend_sched_synchronize, where it took a microsecond
    HOST_SAMPLE = 7,  // llama_sampler_apply, the outermost
    HOST_RESET = 8,   // ggml_backend_sched_reset
};

struct event_host {
    uint32_t kind; // enum host_kind
    uint32_t tid;
    uint64_t begin;
    uint64_t end;
    uint64_t context;
    uint64_t bytes;
    uint32_t ubatch; // the newest one of this thread
    uint32_t count;  // calls in a row that are recorded as one, from first to last
};

struct event_copy {
    uint64_t begin;
    uint64_t end;
    uint64_t bytes;
    uint32_t from_buffer;
    uint32_t to_buffer;
    uint64_t context;
    char name[64];
};

// The definitions' file: this head, then frames to its end. A generation begins with
// all that lasts (program, ops, models, buffers, ...), and holds every build that a graph
// uses which begins in it. What lies before `defs_first` is given back: a hole.
struct defs_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    char identity[16];
};

_Static_assert(sizeof(struct ring_control) == RING_PAGE, "one page");
_Static_assert(offsetof(struct ring_control, enabled) == 1024, "the viewer's part");
_Static_assert(offsetof(struct ring_control, heartbeat) == 2048, "the tracer's part");
_Static_assert(offsetof(struct ring_control, events_head) == 2560, "its own line");
_Static_assert(offsetof(struct ring_control, events_tail) == 2624, "its own line");
_Static_assert(sizeof(struct ring_lane) == 256, "four lines");
_Static_assert(offsetof(struct ring_lane, head) == 64, "its own line");
_Static_assert(offsetof(struct ring_lane, tail) == 128, "its own line");
_Static_assert(sizeof(struct ring_record) == 32, "half a line");
_Static_assert(sizeof(struct ring_frame) == 16, "");
_Static_assert(sizeof(struct def_tensor) % 8 == 0, "");

#endif
