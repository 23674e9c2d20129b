// Spans: what every thread does between the begin and the end of a graph.
//
// An op begins where ggml-cpu asks for extra buffer types, which it does first for each
// op on each thread; it ends at the entry of the last barrier before the next begin.
// On this path nothing is locked, allocated or printed.

#define _GNU_SOURCE
#include "tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SLOTS 64
#define MAX_THREADS 512

// A thread's place in a computation. Written by that thread while the graph is computed,
// by the main thread before and after. Other threads look at `steps` and `mark` only.
struct lane {
    const struct step *_Atomic steps; // NULL between graphs
    _Atomic uint32_t mark;            // graph + 1; 0 between graphs
    uint32_t cursor;
    int32_t ith;
    bool is_open, is_masked;
    uint16_t op, number;
    uint32_t node, extra, barriers;
    uint32_t core, last_core;
    uint64_t begin, entry;
    _Atomic uint64_t exit; // a worker may leave its last barrier late
    struct slot *slot;
    uint64_t head, tail, head_before;
    _Atomic uint32_t taken_for; // graph + 1: by a thread that came without an index
    struct ring_lane *ring_lane;
    struct ring_record *records;
    uint64_t mask;
    bool overwrites;
} __attribute__((aligned(128)));

// One computation at a time.
struct slot {
    _Atomic uint32_t is_taken, graph, n_threads;
    uint32_t number;
    struct build *_Atomic build; // held until another one takes its place
    struct time_base base;
    uint64_t last_ns, begin_ns;
    uint64_t n_expected; // records of the graph that filters leave
    struct lane *_Atomic lanes;
    uint32_t n_lanes;
    bool is_first;
    _Atomic bool lacks_lanes; // the ring has none for some of its threads
    uint8_t *scratch;
    size_t scratch_used, scratch_room;
    // Where ops are only asked about: threads that came, and how far the planning got.
    _Atomic uint32_t n_came;
    int64_t planned;
    _Atomic bool is_asked;
};

_Atomic uint32_t n_computing;
static _Atomic uint32_t n_untraced; // graphs that are computed and not traced
static _Atomic uint32_t n_without_lanes; // graphs of which some threads are not
static struct slot slots[MAX_SLOTS];
static _Atomic uint32_t n_slots_used; // slots beyond were never taken
static _Atomic uint32_t next_graph;
static _Atomic bool is_checked;
// Where this thread is: a lane, as long as it computes the graph of that mark.
static __thread struct {
    struct lane *lane;
    uint32_t mark;
} here;
static __thread uint32_t last_slot;

// ---- the hot path -----------------------------------------------------------------------

static inline void write_record(struct lane *lane, const struct ring_record *record)
{
    if (!lane->overwrites && UNLIKELY(lane->head - lane->tail > lane->mask)) {
        lane->tail = __atomic_load_n(&lane->ring_lane->tail, __ATOMIC_ACQUIRE);
        if (lane->head - lane->tail > lane->mask) {
            lane->ring_lane->dropped++;
            return;
        }
    }
    lane->records[lane->head & lane->mask] = *record;
    __atomic_store_n(&lane->ring_lane->head, ++lane->head, __ATOMIC_RELEASE);
}

static inline uint32_t short_of(uint64_t ns)
{
    return ns > 0xFFFFFFFFu ? 0xFFFFFFFFu : (uint32_t)ns;
}

static inline void close_op(struct lane *lane)
{
    const struct time_base *base = &lane->slot->base;
    uint32_t barriers = lane->barriers > 255 ? 255 : lane->barriers;
    uint32_t core = lane->core & 0xFFFFF;
    uint32_t extra = core | barriers << BARRIER_SHIFT | lane->extra;
    struct ring_record record = {
        .t0 = base->ns + ticks_to_ns(base, lane->begin - base->ticks),
        .node = lane->node,
        .graph = lane->slot->graph,
        .lane = lane->number,
        .op = lane->op,
    };
    if (LIKELY(barriers > 0)) {
        record.op_ns = short_of(ticks_to_ns(base, lane->entry - lane->begin));
        uint64_t exit = atomic_load_explicit(&lane->exit, memory_order_relaxed);
        record.wait_ns = short_of(ticks_to_ns(base, exit - lane->entry));
        if (((lane->last_core ^ lane->core) & 0xFFF) != 0)
            extra |= RECORD_MIGRATED;
    } else {
        extra |= RECORD_BEGIN;
    }
    record.extra = extra;
    lane->ring_lane->last_ns = record.t0 + record.op_ns + record.wait_ns;
    lane->is_open = false;
    write_record(lane, &record);
}

// The lane of this thread in the graph that holds an op. Graphs of other computations,
// which are looked at meanwhile, may end: nothing of theirs is changed or followed.
static struct lane *find_lane(int ith, const struct ggml_tensor *op)
{
    struct lane *found = NULL;
    uint32_t n = n_slots_used;
    builds_look_begins();
    for (uint32_t i = 0; i < n && found == NULL; i++) {
        struct slot *slot = &slots[i];
        struct lane *lanes = slot->lanes;
        if (!slot->is_taken || lanes == NULL || ith < 0 || (uint32_t)ith >= slot->n_threads)
            continue;
        struct lane *lane = &lanes[ith];
        const struct build *build = lane->steps ? slot->build : NULL;
        int64_t step = build ? step_find(build, op) : -1;
        if (step < 0)
            continue;
        found = lane;
        lane->cursor = (uint32_t)step;
    }
    builds_look_ends();
    if (found != NULL) {
        if (here.lane != found && found->ring_lane != NULL)
            found->ring_lane->tid = thread_number();
        here.lane = found;
        here.mark = found->mark;
    }
    return found;
}

static bool is_empty(const struct ggml_tensor *op)
{
    return op->ne[0] == 0 || op->ne[1] == 0 || op->ne[2] == 0 || op->ne[3] == 0;
}

// No graph that is traced holds the op.
static void op_unknown(const struct ggml_tensor *op)
{
    struct ring *ring = the_ring;
    here.lane = NULL;
    // One without elements computes nothing; nobody knows the ops of other graphs.
    if (ring == NULL || n_untraced > 0 || n_without_lanes > 0 ||
        ggml_layout() != LAYOUT_KNOWN || is_empty(op))
        return;
    __atomic_fetch_add(&ring->control->no_node, 1, __ATOMIC_RELAXED);
}

// The choice of experts as it lies in memory now.
static void copy_choice(struct lane *lane, const struct step *step)
{
    const struct ggml_tensor *op = step->tensor;
    struct slot *slot = lane->slot;
    bool has_scores = step->flags & STEP_ROUTER;
    const struct ggml_tensor *ids = has_scores ? op->src[1] : op->src[2];
    const struct ggml_tensor *from = op->src[0];
    int64_t used = ids->ne[0], rows = ids->ne[1];
    int64_t n_experts = has_scores ? from->ne[1] : from->ne[2];
    uint32_t index = (uint32_t)(step - slot->build->steps);
    for (int64_t first = 0; first < rows; first += EXPERT_ROWS) {
        int64_t n = rows - first < EXPERT_ROWS ? rows - first : EXPERT_ROWS;
        size_t list = (size_t)(n * used) * (has_scores ? 8 : 4);
        size_t size = (EXPERT_HEAD - 8 + list + 7) & ~(size_t)7;
        if (slot->scratch_used + size > slot->scratch_room)
            return;
        uint8_t *at = slot->scratch + slot->scratch_used;
        struct ring_frame frame = {
            (uint32_t)size, has_scores ? EVENT_ROUTER : EVENT_EXPERTS, 0,
            slot->base.ns + ticks_to_ns(&slot->base, lane->begin - slot->base.ticks)};
        struct event_experts head = {slot->graph,
                                     step->node,
                                     slot->build->layers[index],
                                     (uint32_t)n,
                                     (uint32_t)used,
                                     (uint32_t)n_experts,
                                     (uint32_t)first,
                                     0};
        memset(at + size - 8, 0, 8);
        memcpy(at, &frame, sizeof frame);
        memcpy(at + sizeof frame, &head, sizeof head);
        int32_t *listed = (int32_t *)(at + sizeof frame + sizeof head);
        float *scores = (float *)(listed + n * used);
        for (int64_t row = 0; row < n; row++)
            for (int64_t rank = 0; rank < used; rank++) {
                size_t place = (size_t)(first + row) * ids->nb[1] + (size_t)rank * ids->nb[0];
                int32_t id = *(const int32_t *)((const char *)ids->data + place);
                listed[row * used + rank] = id;
                if (!has_scores)
                    continue;
                float score = 0;
                if (id >= 0 && id < n_experts)
                    memcpy(&score,
                           (const char *)from->data + (size_t)id * from->nb[1] +
                               (size_t)(first + row) * from->nb[2],
                           sizeof score);
                scores[row * used + rank] = score;
            }
        slot->scratch_used += size;
    }
}

void op_begins(const struct ggml_compute_params *params, const struct ggml_tensor *op,
               bool is_fused)
{
    struct lane *lane = here.lane;
    bool is_mine = lane && atomic_load_explicit(&lane->mark, memory_order_relaxed) == here.mark;
    const struct step *steps = is_mine ? lane->steps : NULL;
    if (UNLIKELY(steps == NULL || lane->ith != params->ith ||
                 steps[lane->cursor].tensor != op)) {
        struct lane *found = find_lane(params->ith, op);
        if (found == NULL) {
            if (steps != NULL && lane->is_open)
                close_op(lane);
            op_unknown(op);
            return;
        }
        lane = found;
        steps = lane->steps;
    }
    uint32_t core;
    uint64_t now = ticks_and_core(&core);
    if (lane->is_open)
        close_op(lane);
    const struct step *step = &steps[lane->cursor++];
    if (UNLIKELY(lane->is_masked || step->flags & STEP_SKIP))
        return;
    lane->begin = now;
    lane->core = core;
    lane->barriers = 0;
    lane->node = step->node;
    lane->op = step->op;
    lane->extra = 0;
    lane->is_open = true;
    if (is_fused) {
        lane->extra = RECORD_FUSED;
        lane->cursor++; // the one that runs within it
    }
    if (UNLIKELY(step->flags & (STEP_EXPERTS | STEP_ROUTER)) && lane->ith == 0)
        copy_choice(lane, step);
}

static __thread struct {
    struct slot *slot;
    uint32_t graph, ith;
} came;
static bool ready_lane(struct slot *slot, struct ring *ring, uint32_t ith);
static void open_lane(struct slot *slot, uint32_t ith);

static struct slot *find_asked(const struct ggml_tensor *op)
{
    struct slot *found = NULL;
    uint32_t n = n_slots_used;
    builds_look_begins();
    for (uint32_t i = 0; i < n && found == NULL; i++) {
        struct slot *slot = &slots[i];
        struct lane *lanes = slot->lanes;
        bool is_computing =
            slot->is_taken && slot->is_asked && lanes != NULL && lanes[0].steps != NULL;
        const struct build *build = is_computing ? slot->build : NULL;
        if (build != NULL && step_find(build, op) >= 0)
            found = slot;
    }
    builds_look_ends();
    return found;
}

// This thread is new to a graph: it gets the lane that it had before, or a free one.
static void come(struct slot *slot)
{
    uint32_t mark = slot->graph + 1, ith = came.slot == slot ? came.ith : 0;
    for (uint32_t tried = 0; ith < MAX_THREADS; ith = tried) {
        struct lane *lane = &slot->lanes[ith];
        uint32_t held = lane->taken_for;
        if (ith > 0 && held != mark &&
            atomic_compare_exchange_strong(&lane->taken_for, &held, mark))
            break;
        tried++;
    }
    came.slot = slot;
    came.graph = slot->graph;
    came.ith = ith;
    if (ith == MAX_THREADS)
        return;
    // Once for each thread and graph; the ring's lane only the first time.
    struct lane *lane = &slot->lanes[ith];
    if (lane->ring_lane == NULL) {
        pthread_mutex_lock(&tracer_lock);
        ready_lane(slot, the_ring, ith);
        pthread_mutex_unlock(&tracer_lock);
    }
    open_lane(slot, ith);
    uint32_t n = slot->n_came;
    while (n <= ith && !atomic_compare_exchange_weak(&slot->n_came, &n, ith + 1))
        ;
}

void op_asked(const void *op)
{
    struct slot *slot = came.slot;
    bool is_mine = slot != NULL && slot->is_asked && slot->graph == came.graph;
    // While this thread computes a graph, it stays.
    if (!is_mine || step_find(slot->build, op) < 0) {
        slot = find_asked(op);
        if (slot == NULL)
            return;
        if (slot != came.slot || slot->graph != came.graph)
            come(slot);
    }
    // The graph's own thread is asked about all ops once before it computes them.
    if (came.ith == 0 && slot->planned != INT64_MAX) {
        int64_t step = step_find(slot->build, op);
        if (step > slot->planned) {
            slot->planned = step;
            return;
        }
        slot->planned = INT64_MAX;
    }
    op_begins(&(struct ggml_compute_params){(int)came.ith, 0}, op, false);
}

void barrier_passed(void *threadpool, void (*barrier)(void *))
{
    struct lane *lane = here.lane;
    if (lane == NULL || !lane->is_open ||
        atomic_load_explicit(&lane->mark, memory_order_relaxed) != here.mark) {
        barrier(threadpool);
        return;
    }
    lane->entry = ticks_and_core(&lane->last_core);
    atomic_store_explicit(&lane->exit, 0, memory_order_relaxed);
    lane->barriers++;
    barrier(threadpool);
    atomic_store_explicit(&lane->exit, ticks(), memory_order_relaxed);
}

// ---- begin and end of a graph -----------------------------------------------------------

static struct slot *take_slot(void)
{
    for (uint32_t i = 0; i <= MAX_SLOTS; i++) {
        // First where this thread was last: its lanes stay the same.
        struct slot *slot = &slots[i == 0 ? last_slot : i - 1];
        uint32_t is_free = 0;
        if (slot->is_taken || !atomic_compare_exchange_strong(&slot->is_taken, &is_free, 1))
            continue;
        slot->number = last_slot = (uint32_t)(slot - slots);
        uint32_t used = n_slots_used;
        while (used <= slot->number &&
               !atomic_compare_exchange_weak(&n_slots_used, &used, slot->number + 1))
            ;
        return slot;
    }
    return NULL;
}

// With the lock held.
static bool ready_lane(struct slot *slot, struct ring *ring, uint32_t ith)
{
    struct lane *lane = &slot->lanes[ith];
    if (lane->ring_lane == NULL) {
        lane->ith = (int32_t)ith;
        lane->slot = slot;
        lane->ring_lane = ring_lane_take(ring, slot->number, ith);
        if (lane->ring_lane == NULL)
            return false;
        lane->number = (uint16_t)(lane->ring_lane - ring->lanes);
        lane->records = ring->records + lane->number * (ring->lane_mask + 1);
        lane->mask = ring->lane_mask;
        lane->overwrites = ring->overwrites;
    }
    return true;
}

// With the lock held.
static bool ready_lanes(struct slot *slot, struct ring *ring, uint32_t n_threads)
{
    if (slot->lanes == NULL) {
        // Once for all: threads hold on to their lanes.
        void *memory = NULL;
        if (posix_memalign(&memory, 128, MAX_THREADS * sizeof(struct lane)) != 0)
            return false;
        memset(memory, 0, MAX_THREADS * sizeof(struct lane));
        slot->lanes = memory;
    }
    for (uint32_t ith = 0; ith < n_threads; ith++)
        ready_lane(slot, ring, ith);
    if (n_threads > slot->n_lanes)
        slot->n_lanes = n_threads;
    return true;
}

static bool ready_scratch(struct slot *slot)
{
    const struct build *build = slot->build;
    size_t needed = build ? build->expert_bytes : 0;
    if (needed <= slot->scratch_room)
        return true;
    uint8_t *more = realloc(slot->scratch, needed);
    if (more == NULL)
        return false;
    slot->scratch = more;
    slot->scratch_room = needed;
    return true;
}

static bool is_selected(struct ring_control *control)
{
    uint32_t every = control->sample_every;
    if (control->enabled &&
        (every <= 1 || (__atomic_load_n(&control->graphs, __ATOMIC_RELAXED) +
                        __atomic_load_n(&control->skipped, __ATOMIC_RELAXED)) %
                               every ==
                           0))
        return true;
    __atomic_fetch_add(&control->skipped, 1, __ATOMIC_RELAXED);
    return false;
}

// With the lock held, before the first graph.
static void look_around(void)
{
    attach();
    // It says why, where tensors are not understood.
    if (ggml_layout() == LAYOUT_KNOWN && !is_hooked("ggml_cpu_extra_compute_forward"))
        begins_wrap();
}

static struct slot *graph_begins(struct ggml_cgraph *graph, uint32_t n_threads,
                                 uint64_t at, bool has_inputs, bool is_counted)
{
    struct ring *ring = the_ring;
    if (ring == NULL) {
        pthread_mutex_lock(&tracer_lock);
        look_around();
        ring = ring_make(n_threads);
        pthread_mutex_unlock(&tracer_lock);
    }
    if (ring == NULL || n_threads == 0 || n_threads > MAX_THREADS)
        return NULL;
    struct ring_control *control = ring->control;
    __atomic_store_n(&control->heartbeat, monotonic_ns(), __ATOMIC_RELAXED);
    if (!is_selected(control))
        return NULL;
    bool is_known = ggml_layout() == LAYOUT_KNOWN;
    int n_nodes = is_known ? ggml.graph_n_nodes(graph) : 0;
    struct slot *slot = take_slot();
    if (slot == NULL) {
        __atomic_fetch_add(&control->skipped, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint64_t signature = is_known ? graph_signature(graph, n_nodes) : 0;
    pthread_mutex_lock(&tracer_lock);
    definitions_renew();
    struct build *build = slot->build;
    if (build == NULL || build->signature != signature) {
        build_drop(build);
        build = is_known ? build_take(graph, n_nodes, signature) : NULL;
        slot->build = build;
    }
    if (build != NULL)
        build_write(build, graph);
    if (build != NULL && build->filter_seq != control->filter_seq)
        build_filter(build, control);
    if (!ready_lanes(slot, ring, n_threads) || !ready_scratch(slot)) {
        pthread_mutex_unlock(&tracer_lock);
        slot->is_taken = 0;
        return NULL;
    }
    slot->graph = next_graph++;
    slot->is_first = !is_checked;
    if (build != NULL && has_inputs)
        ubatch_write(build);
    clock_base(&slot->base, slot->last_ns);
    if (__atomic_fetch_add(&control->graphs, 1, __ATOMIC_RELAXED) % 256 == 0)
        clock_write(&slot->base);
    slot->begin_ns = at ? at : slot->base.ns;
    struct event_graph body = {
        .graph = slot->graph,
        .build = build ? build->number : UNKNOWN_U32,
        .ubatch = around.ubatch,
        .slot = (uint16_t)slot->number,
        .n_threads = is_counted ? (uint16_t)n_threads : 0,
        .phase = around.ubatch == UNKNOWN_U32 ? PHASE_UNKNOWN : (uint16_t)around.phase,
        .split = (uint16_t)around.split,
        .n_nodes = (uint32_t)n_nodes,
        .context = around.context,
        .backend = around.backend,
        .backend_number = backend_number((void *)(uintptr_t)around.backend),
    };
    struct frame frame = {0};
    frame_begin(&frame, EVENT_GRAPH_BEGIN, slot->begin_ns);
    frame_add(&frame, &body, sizeof body);
    frame_write(&frame);
    pthread_mutex_unlock(&tracer_lock);
    slot->n_threads = n_threads;
    slot->n_expected = 0;
    slot->scratch_used = 0;
    return slot;
}

// A thread may begin.
static void open_lane(struct slot *slot, uint32_t ith)
{
    struct lane *lane = &slot->lanes[ith];
    const struct build *build = slot->build;
    lane->head_before = lane->ring_lane ? lane->head + lane->ring_lane->dropped : 0;
    lane->barriers = 0;
    lane->cursor = 0;
    lane->is_open = false;
    const struct ring_control *control = ((struct ring *)the_ring)->control;
    lane->is_masked = control->lane_mask[ith / 64] >> ith % 64 & 1;
    if (lane->ring_lane == NULL && !atomic_exchange(&slot->lacks_lanes, true))
        n_without_lanes++;
    if (lane->ring_lane != NULL && build != NULL) {
        atomic_store_explicit(&lane->mark, slot->graph + 1, memory_order_relaxed);
        atomic_store_explicit(&lane->steps, build->steps, memory_order_release);
    }
}

static void open_lanes(struct slot *slot)
{
    for (uint32_t ith = 0; ith < slot->n_threads; ith++)
        open_lane(slot, ith);
    slot->is_asked = begins_are_seen();
    if (slot->is_asked) {
        came.slot = slot;
        came.graph = slot->graph;
        came.ith = 0;
    }
    n_computing++;
}

static uint64_t close_lanes(struct slot *slot)
{
    slot->is_asked = false;
    slot->n_expected = 0;
    const struct build *build = slot->build;
    uint64_t now = ticks(), n = 0;
    for (uint32_t ith = 0; ith < slot->n_threads; ith++) {
        struct lane *lane = &slot->lanes[ith];
        if (!lane->is_masked)
            slot->n_expected += build->n_recorded;
        if (lane->ring_lane == NULL) {
            uint64_t n_lost = lane->is_masked ? 0 : build->n_recorded;
            __atomic_fetch_add(&((struct ring *)the_ring)->control->no_lane, n_lost,
                               __ATOMIC_RELAXED);
            n += n_lost;
            continue;
        }
        // A worker may still be on its way out of the last barrier.
        if (lane->is_open) {
            uint64_t exit = atomic_load_explicit(&lane->exit, memory_order_relaxed);
            if (exit < lane->entry)
                atomic_store_explicit(&lane->exit, now, memory_order_relaxed);
            close_op(lane);
        }
        // Whoever looks at builds after this finds none here: see builds_look_begins.
        atomic_store(&lane->steps, NULL);
        atomic_store(&lane->mark, 0);
        n += lane->head + lane->ring_lane->dropped - lane->head_before;
        if (lane->ring_lane->last_ns > slot->last_ns)
            slot->last_ns = lane->ring_lane->last_ns;
    }
    if (atomic_exchange(&slot->lacks_lanes, false))
        n_without_lanes--;
    n_computing--;
    return n;
}

// With the lock held. One look at the first graph: is there a record of each node on
// each thread? If not, less is recorded, and the ring says so.
static void check(struct slot *slot, uint64_t found)
{
    struct ring_control *control = ((struct ring *)the_ring)->control;
    const struct build *build = slot->build;
    uint32_t n_threads = slot->n_threads;
    uint64_t expected =
        build ? (uint64_t)(build->n_steps - build->n_fused) * n_threads : 0;
    struct def_check body = {.graph = slot->graph, .expected = expected, .found = found};
    uint32_t barriers = 0;
    for (uint32_t ith = 0; ith < n_threads; ith++) {
        body.lanes += slot->lanes[ith].head > 0;
        barriers += slot->lanes[ith].barriers;
    }
    body.result = found == 0        ? CHECK_NOTHING
                  : barriers == 0   ? CHECK_NO_BARRIER
                  : found < expected ? CHECK_MISSING
                                    : CHECK_EQUAL;
    body.mode = found == 0 ? MODE_GRAPHS : barriers == 0 ? MODE_BEGINS : MODE_THREADS;
    if (found < expected && n_threads > 0)
        body.missing_nodes = (expected - found) / n_threads;
    __atomic_store_n(&control->mode, body.mode, __ATOMIC_RELAXED);
    struct frame frame = {0};
    frame_begin(&frame, DEF_CHECK, monotonic_ns());
    frame_add(&frame, &body, sizeof body);
    frame_define(&frame, WITH_RING);
    is_checked = true;
}

// A fork within the graph is not meant to happen; the child has no ring.
static void check_once(struct slot *slot, uint64_t found)
{
    const struct build *build = slot->build;
    if (the_ring == NULL || !slot->is_first || build->n_steps == 0)
        return;
    pthread_mutex_lock(&tracer_lock);
    if (!is_checked)
        check(slot, found);
    pthread_mutex_unlock(&tracer_lock);
}

static void write_graph(struct slot *slot, uint64_t end)
{
    struct lane *lane = &slot->lanes[0];
    if (lane->ring_lane == NULL)
        return;
    struct ring_record record = {
        .t0 = slot->begin_ns,
        .op_ns = short_of(end - slot->begin_ns),
        .node = UNKNOWN_U32,
        .graph = slot->graph,
        .lane = lane->number,
        .extra = CPU_UNKNOWN | RECORD_GRAPH,
    };
    lane->ring_lane->last_ns = slot->last_ns = end;
    slot->n_expected = 1;
    write_record(lane, &record);
    // Until a graph is seen node by node, this is what there is.
    struct ring_control *control = ((struct ring *)the_ring)->control;
    uint32_t unknown = MODE_UNKNOWN;
    __atomic_compare_exchange_n(&control->mode, &unknown, MODE_GRAPHS, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static uint32_t mode_of(const struct ring_control *control)
{
    return __atomic_load_n(&control->mode, __ATOMIC_RELAXED);
}

static int untraced(struct ggml_cgraph *graph, struct ggml_cplan *plan,
                    int (*compute)(struct ggml_cgraph *, struct ggml_cplan *))
{
    n_untraced++;
    int status = compute(graph, plan);
    n_untraced--;
    return status;
}

static void graph_ends(struct slot *slot, int status, uint64_t n_records)
{
    pthread_mutex_lock(&tracer_lock);
    for (size_t at = 0; at < slot->scratch_used;) {
        uint32_t size;
        memcpy(&size, slot->scratch + at, sizeof size);
        events_write(slot->scratch + at, size);
        at += size;
    }
    struct event_graph_end body = {slot->graph, status, n_records, slot->n_expected};
    struct frame frame = {0};
    frame_begin(&frame, EVENT_GRAPH_END, monotonic_ns());
    frame_add(&frame, &body, sizeof body);
    frame_write(&frame);
    pthread_mutex_unlock(&tracer_lock);
    slot->is_taken = 0;
}

int graph_traced(struct ggml_cgraph *graph, struct ggml_cplan *plan,
                 int (*compute)(struct ggml_cgraph *, struct ggml_cplan *))
{
    int error = errno;
    around.n_computed++;
    struct slot *slot = graph_begins(graph, (uint32_t)plan->n_threads, 0, true, true);
    if (slot == NULL) {
        errno = error;
        return untraced(graph, plan, compute);
    }
    struct ring_control *control = ((struct ring *)the_ring)->control;
    bool by_thread = (mode_of(control) != MODE_GRAPHS || !is_checked) && slot->build != NULL;
    uint64_t n = 0;
    if (by_thread) {
        slot->planned = INT64_MAX; // that was before
        open_lanes(slot);
    }
    errno = error;
    int status = by_thread ? compute(graph, plan) : untraced(graph, plan, compute);
    error = errno;
    if (by_thread) {
        n = close_lanes(slot);
        check_once(slot, n);
    }
    if (the_ring != NULL) {
        if (n == 0 && (!by_thread || mode_of(control) == MODE_GRAPHS)) {
            write_graph(slot, monotonic_ns());
            n = 1;
        }
        graph_ends(slot, status, n);
    }
    errno = error;
    return status;
}

// Graphs whose nodes are not seen: as a whole, on the thread that asked for them. With
// a backend that computes by itself this is how long it took to hand them over.

#define MAX_WHOLE 64
// Backends and schedulers that turned out to be such.
static void *_Atomic whole[MAX_WHOLE];

static void *_Atomic *whole_place(void *computer)
{
    for (int i = 0; i < MAX_WHOLE; i++)
        if (whole[i] == computer)
            return &whole[i];
    return NULL;
}

static int whole_traced(void *computer, struct ggml_cgraph *graph,
                        int (*compute)(void *, struct ggml_cgraph *))
{
    int error = errno;
    uint32_t before = around.n_computed;
    uint64_t begin = monotonic_ns();
    // Inputs can be read before it is computed only; behind it others lie there.
    bool is_known = whole_place(computer) != NULL;
    struct slot *slot = is_known ? graph_begins(graph, 1, begin, true, true) : NULL;
    errno = error;
    int status = compute(computer, graph);
    error = errno;
    uint64_t end = monotonic_ns();
    bool was_written = around.n_computed != before;
    if (!was_written && !is_known) {
        slot = graph_begins(graph, 1, begin, false, true);
        void *_Atomic *place = whole_place(NULL);
        if (place != NULL)
            *place = computer;
    }
    if (was_written && is_known) {
        void *_Atomic *place = whole_place(computer);
        if (place != NULL)
            *place = NULL; // another one at the same address
    }
    around.n_computed++;
    if (slot != NULL) {
        if (!was_written)
            write_graph(slot, end);
        graph_ends(slot, status, !was_written);
    }
    errno = error;
    return status;
}

// Ops are seen by their beginnings; how many threads there are, by who comes.
static int begins_traced(void *backend, struct ggml_cgraph *graph,
                         int (*compute)(void *, struct ggml_cgraph *))
{
    int error = errno;
    around.n_computed++;
    struct slot *slot = graph_begins(graph, 1, 0, true, false);
    bool by_thread = slot != NULL && slot->build != NULL;
    if (by_thread) {
        slot->planned = -1;
        slot->n_came = 1;
        open_lanes(slot);
        slot->n_threads = MAX_THREADS;
    }
    errno = error;
    int status = compute(backend, graph);
    error = errno;
    uint64_t n = 0;
    if (by_thread) {
        slot->n_threads = slot->n_came;
        n = close_lanes(slot);
        if (n > 0)
            check_once(slot, n);
    }
    if (slot != NULL && the_ring != NULL) {
        if (n == 0) { // another backend than the CPU's
            void *_Atomic *place = whole_place(NULL);
            if (place != NULL)
                *place = backend;
            write_graph(slot, monotonic_ns());
        }
        graph_ends(slot, status, n ? n : 1);
    }
    errno = error;
    return status;
}

int backend_graph_traced(void *backend, struct ggml_cgraph *graph,
                         int (*compute)(void *, struct ggml_cgraph *))
{
    uint64_t outer = around.backend;
    around.backend = (uint64_t)(uintptr_t)backend;
    if (the_ring == NULL) {
        pthread_mutex_lock(&tracer_lock);
        look_around();
        pthread_mutex_unlock(&tracer_lock);
    }
    bool is_asked = begins_are_seen() && !is_hooked("ggml_graph_compute") &&
                    whole_place(backend) == NULL;
    int status = is_asked ? begins_traced(backend, graph, compute)
                          : whole_traced(backend, graph, compute);
    around.split++;
    around.backend = outer;
    return status;
}

// Where even the backends' graphs pass unseen.
int sched_graph_traced(void *sched, struct ggml_cgraph *graph,
                       int (*compute)(void *, struct ggml_cgraph *))
{
    return whole_traced(sched, graph, compute);
}

// In a child of fork: its computations begin anew, in a ring of its own.
void slots_forget(void)
{
    for (uint32_t i = 0; i < MAX_SLOTS; i++) {
        struct lane *lanes = slots[i].lanes;
        if (lanes != NULL)
            memset(lanes, 0, MAX_THREADS * sizeof *lanes);
        slots[i] = (struct slot){.lanes = lanes};
    }
    for (int i = 0; i < MAX_WHOLE; i++)
        whole[i] = NULL;
    n_computing = n_untraced = n_without_lanes = 0;
    next_graph = 0;
    is_checked = false;
    here.lane = NULL;
}
