// A writer of rings for tests, by the header alone: what the tracer writes, made up.
//
// Loaded into a program by LD_PRELOAD it makes the ring that GGSCOPE_RING names and
// writes graphs of eight nodes on two lanes before main() runs. In the environment:
//   WRITER_GRAPHS    how many (4)
//   WRITER_PAUSE_US  sleeps so long after each
//   WRITER_LANE      records of a lane's ring, a power of two (4096)
//   WRITER_KILL      ends itself by signal 9 after the last one
//   WRITER_HALF      ends itself by signal 9 while it makes the ring, at so many bytes
//   WRITER_FOR       only in programs with this name

#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LANES = 8, USED = 2, NODES = 8, EVENTS = 1 << 16 };

static struct ring_control *control;
static struct ring_lane *lanes;
static struct ring_record *records;
static uint8_t *events;
static int defs = -1;
static uint8_t frame[1 << 14];
static uint32_t size;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t number(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : usual;
}

static void add(const void *data, size_t n)
{
    memcpy(frame + size, data, n);
    size += (uint32_t)n;
}

static void begin(uint16_t type)
{
    struct ring_frame head = {0, type, 0, now()};
    size = 0;
    add(&head, sizeof head);
}

static void add_text(const char *text)
{
    uint16_t n = (uint16_t)strlen(text);
    add(&n, sizeof n);
    add(text, n);
}

static void finish(void)
{
    while (size % 8)
        frame[size++] = 0;
    memcpy(frame, &size, sizeof size);
}

static void define(void)
{
    finish();
    if (write(defs, frame, size) != (ssize_t)size)
        _exit(97);
    control->defs_bytes += size;
}

static void tell(void)
{
    finish();
    uint64_t head = control->events_head, place = head & (EVENTS - 1);
    uint64_t pad = EVENTS - place < size ? EVENTS - place : 0;
    if (head + pad + size - control->events_tail > EVENTS) {
        control->events_dropped++;
        return;
    }
    if (pad) {
        uint32_t filler[2] = {(uint32_t)pad, FRAME_PAD};
        memcpy(events + place, filler, sizeof filler);
        head += pad;
        place = 0;
    }
    memcpy(events + place, frame, size);
    __atomic_store_n(&control->events_head, head + size, __ATOMIC_RELEASE);
}

static void define_op(uint32_t op, const char *name)
{
    begin(DEF_OP);
    add(&op, sizeof op);
    add_text(name);
    define();
}

static void make(const char *path, uint64_t capacity)
{
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        snprintf(name, sizeof name, "%s-%ld", path, (long)getpid());
        file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (getenv("WRITER_HALF")) { // ends while it makes the ring, as one that is stopped
        if (ftruncate(file, (off_t)number("WRITER_HALF", 0)) != 0)
            _exit(96);
        raise(SIGKILL);
    }
    struct ring_control page = {
        .version = RING_VERSION, .byte_order = RING_BYTE_ORDER,
        .header_size = RING_PAGE, .record_size = sizeof(struct ring_record),
        .lane_size = sizeof(struct ring_lane), .n_lanes = LANES,
        .lanes_offset = RING_PAGE, .lane_capacity = capacity,
        .events_offset = 2 * RING_PAGE, .events_capacity = EVENTS,
        .records_offset = 2 * RING_PAGE + EVENTS,
        .file_size = 2 * RING_PAGE + EVENTS + LANES * capacity * 32,
        .pid = (uint32_t)getpid(), .t0_mono = now(), .state = RING_RUNS,
        .mode = MODE_THREADS, .enabled = (uint32_t)number("GGSCOPE_ENABLED", 1),
        .sample_every = (uint32_t)number("GGSCOPE_SAMPLE", 1),
    };
    if (file < 0 || posix_fallocate(file, 0, (off_t)page.file_size) != 0)
        _exit(98);
    uint8_t *map = mmap(NULL, page.file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memcpy(page.identity, &page.t0_mono, sizeof page.t0_mono);
    snprintf(page.program, sizeof page.program, "%s", program_invocation_name);
    *(struct ring_control *)map = page;
    control = (void *)map;
    lanes = (void *)(map + page.lanes_offset);
    events = map + page.events_offset;
    records = (void *)(map + page.records_offset);
    close(file);
    strcat(name, DEFS_SUFFIX);
    defs = open(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    struct defs_header head = {DEFS_MAGIC, RING_VERSION, RING_BYTE_ORDER, {0}};
    memcpy(head.identity, page.identity, sizeof head.identity);
    if (write(defs, &head, sizeof head) != sizeof head)
        _exit(96);
    define_op(29, "MUL_MAT");
    define_op(2, "ADD");
    begin(DEF_BUILD);
    struct def_build build = {.n_nodes = NODES, .n_tensors = NODES + 1, .n_computed = NODES};
    add(&build, sizeof build);
    for (int32_t node = 0; node < NODES; node++) {
        struct def_tensor tensor = {
            .op = node % 2 ? 2 : 29, .flags = TENSOR_COMPUTED, .layer = node / 2,
            .offset = UNKNOWN_U64, .ne = {64, 1, 1, 1}, .bytes = 256,
        };
        memset(tensor.sources, 0xFF, sizeof tensor.sources);
        tensor.sources[0] = NODES; // what the first node reads
        tensor.sources[1] = node ? (uint32_t)node - 1 : NODES;
        char text[32];
        snprintf(text, sizeof text, "%s-%d", node % 2 ? "l_out" : "ffn_out", node / 2);
        add(&tensor, sizeof tensor);
        add_text(text);
        while (size % 8)
            frame[size++] = 0;
    }
    struct def_tensor weight = {
        .flags = TENSOR_WEIGHT, .layer = 0, .offset = 4096, .bytes = 8192,
        .ne = {64, 64, 1, 1},
    };
    memset(weight.sources, 0xFF, sizeof weight.sources);
    add(&weight, sizeof weight);
    add_text("blk.0.ffn_up.weight");
    define();
    for (uint32_t lane = 0; lane < USED; lane++) {
        lanes[lane].state = LANE_USED;
        lanes[lane].ith = (uint16_t)lane;
        struct { uint32_t number; uint16_t slot, ith; uint32_t tid; } told =
            {lane, 0, (uint16_t)lane, 0};
        begin(DEF_LANE);
        add(&told, sizeof told);
        define();
    }
    uint64_t magic;
    memcpy(&magic, RING_MAGIC, sizeof magic);
    __atomic_store_n((uint64_t *)control->magic, magic, __ATOMIC_RELEASE);
}

static void compute(uint32_t graph, uint64_t capacity)
{
    struct event_graph told = {
        .graph = graph, .ubatch = UNKNOWN_U32, .n_threads = USED, .n_nodes = NODES,
        .phase = graph ? PHASE_GENERATE : PHASE_PROMPT,
    };
    begin(EVENT_GRAPH_BEGIN);
    add(&told, sizeof told);
    tell();
    for (uint32_t node = 0; node < NODES; node++) {
        uint64_t time = now();
        for (uint32_t lane = 0; lane < USED; lane++) {
            uint64_t head = lanes[lane].head;
            uint64_t tail = __atomic_load_n(&lanes[lane].tail, __ATOMIC_ACQUIRE);
            if (head - tail >= capacity) {
                lanes[lane].dropped++;
                continue;
            }
            records[lane * capacity + (head & (capacity - 1))] = (struct ring_record){
                .t0 = time, .op_ns = 100, .wait_ns = 10, .node = node, .graph = graph,
                .lane = (uint16_t)lane, .op = node % 2 ? 2 : 29, .extra = 0xFFF,
            };
            __atomic_store_n(&lanes[lane].head, head + 1, __ATOMIC_RELEASE);
        }
        while (now() < time + 200)
            ;
    }
    struct { uint32_t graph; int32_t status; uint64_t records; } end =
        {graph, 0, NODES * USED};
    begin(EVENT_GRAPH_END);
    add(&end, sizeof end);
    tell();
    control->graphs++;
    control->heartbeat = now();
}

__attribute__((constructor)) static void run(void)
{
    const char *path = getenv("GGSCOPE_RING"), *wanted = getenv("WRITER_FOR");
    if (path == NULL || control != NULL ||
        (wanted && strcmp(wanted, program_invocation_short_name) != 0))
        return;
    uint64_t capacity = number("WRITER_LANE", 4096), n = number("WRITER_GRAPHS", 4);
    uint64_t pause = number("WRITER_PAUSE_US", 0);
    make(path, capacity);
    for (uint32_t graph = 0; graph < n; graph++) {
        if (control->enabled)
            compute(graph, capacity);
        else
            control->skipped++;
        if (pause)
            usleep((useconds_t)pause);
    }
    if (getenv("WRITER_KILL"))
        raise(SIGKILL);
}

__attribute__((destructor)) static void end(void)
{
    if (control != NULL)
        control->state = RING_ENDED;
}
