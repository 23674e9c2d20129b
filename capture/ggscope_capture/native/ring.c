// The ring: made at the first graph, allocated before use, written in frames. Records are
// written by trace.c alone, definitions by definitions.c.

#define _GNU_SOURCE
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <crt_externs.h>
#include <mach-o/dyld.h>
#endif

#define USUAL_BYTES ((uint64_t)64 << 20)
#define MAX_BYTES ((uint64_t)8 << 30)
#define MIN_BYTES ((uint64_t)1 << 20)
#define MAX_LANES 1024

struct ring *_Atomic the_ring;
pthread_mutex_t tracer_lock = PTHREAD_MUTEX_INITIALIZER;

static struct ring ring_memory;
static size_t mapped_bytes;
static bool has_failed; // nobody tries again at every graph

// ---- small helpers ------------------------------------------------------------------

static uint64_t power_of_two_below(uint64_t number)
{
    uint64_t power = 1;
    while (power * 2 <= number)
        power *= 2;
    return power;
}

static uint64_t number_from(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return usual;
    return strtoull(text, NULL, 10);
}

static size_t read_file(const char *path, char *into, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    size_t size = 0;
    ssize_t n;
    while (size < room && (n = read(file, into + size, room - size)) > 0)
        size += (size_t)n;
    close(file);
    return size;
}

// ---- what the system knows of this process --------------------------------------------

#ifdef __APPLE__
// Not recorded: whoever reads the ring could not ask for it in the same unit.
static uint64_t process_start(void) { return 0; }

static void process_file(char *into, size_t room)
{
    char path[4096];
    uint32_t size = sizeof path;
    if (_NSGetExecutablePath(path, &size) == 0)
        snprintf(into, room, "%s", path);
}

static size_t process_line(char *into, size_t room)
{
    size_t size = 0;
    for (int i = 0; i < *_NSGetArgc() && size < room; i++) {
        const char *word = (*_NSGetArgv())[i];
        size_t length = strnlen(word, room - size - 1) + 1;
        memcpy(into + size, word, length - 1);
        into[size + length - 1] = '\0';
        size += length;
    }
    return size;
}
#else
static uint64_t process_start(void)
{
    char text[1024];
    size_t size = read_file("/proc/self/stat", text, sizeof text - 1);
    text[size] = '\0';
    // The name in brackets may hold anything: fields are counted behind it.
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void process_file(char *into, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", into, room - 1);
    into[n > 0 ? n : 0] = '\0';
}

static size_t process_line(char *into, size_t room)
{
    return read_file("/proc/self/cmdline", into, room);
}
#endif

// ---- frames -------------------------------------------------------------------------

void *frame_add(struct frame *frame, const void *data, size_t size)
{
    if (frame->size + size > frame->room) {
        size_t room = (frame->size + size) * 2 + 256;
        uint8_t *bytes = realloc(frame->bytes, room);
        if (bytes == NULL)
            return NULL;
        frame->bytes = bytes;
        frame->room = room;
    }
    uint8_t *at = frame->bytes + frame->size;
    if (data != NULL)
        memcpy(at, data, size);
    else
        memset(at, 0, size);
    frame->size += size;
    return at;
}

void frame_begin(struct frame *frame, enum frame_type type, uint64_t time)
{
    struct ring_frame head = {0, (uint16_t)type, 0, time};
    frame->size = 0;
    frame_add(frame, &head, sizeof head);
}

void frame_text(struct frame *frame, const char *text, size_t length)
{
    uint16_t n = length > 0xFFFF ? 0xFFFF : (uint16_t)length;
    frame_add(frame, &n, sizeof n);
    frame_add(frame, text, n);
}

bool frame_finish(struct frame *frame)
{
    if (frame->bytes == NULL || frame->size < sizeof(struct ring_frame))
        return false;
    static const char zeros[8];
    frame_add(frame, zeros, -frame->size & 7);
    ((struct ring_frame *)frame->bytes)->size = (uint32_t)frame->size;
    return (frame->size & 7) == 0;
}

void events_write(const uint8_t *bytes, size_t size)
{
    struct ring *ring = the_ring;
    struct ring_control *control = ring->control;
    uint64_t capacity = control->events_capacity;
    uint64_t head = control->events_head, place = head & (capacity - 1);
    uint64_t pad = capacity - place < size ? capacity - place : 0;
    uint64_t tail = __atomic_load_n(&control->events_tail, __ATOMIC_ACQUIRE);
    if (size > capacity / 2 ||
        (!ring->overwrites && head + pad + size - tail > capacity)) {
        control->events_dropped++;
        control->events_dropped_bytes += size;
        return;
    }
    // Frames that will be overwritten are given up first.
    uint64_t oldest = control->events_oldest;
    while (oldest + capacity < head + pad + size) {
        uint32_t frame;
        memcpy(&frame, ring->events + (oldest & (capacity - 1)), sizeof frame);
        oldest += frame;
    }
    __atomic_store_n(&control->events_oldest, oldest, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (pad > 0) {
        uint32_t filler[2] = {(uint32_t)pad, FRAME_PAD};
        memcpy(ring->events + place, filler, sizeof filler);
        head += pad;
        place = 0;
    }
    memcpy(ring->events + place, bytes, size);
    __atomic_store_n(&control->events_head, head + size, __ATOMIC_RELEASE);
}

void frame_write(struct frame *frame)
{
    if (the_ring != NULL && frame_finish(frame))
        events_write(frame->bytes, frame->size);
    free(frame->bytes);
    *frame = (struct frame){0};
}

void note(const char *text, enum lasts lasts)
{
    struct frame frame = {0};
    uint32_t code = 0;
    frame_begin(&frame, DEF_NOTE, monotonic_ns());
    frame_add(&frame, &code, sizeof code);
    frame_text(&frame, text, strlen(text));
    frame_define(&frame, lasts);
}

// ---- the ring -----------------------------------------------------------------------

static void random_bytes(void *into, size_t size)
{
    if (read_file("/dev/urandom", into, size) == size)
        return;
    uint64_t seed = monotonic_ns() ^ (uint64_t)getpid() << 32;
    memcpy(into, &seed, size < sizeof seed ? size : sizeof seed);
}

static int create(char *path, size_t room)
{
    const char *wanted = getenv("GGSCOPE_RING");
    long pid = (long)getpid();
    if (wanted != NULL && wanted[0] == '/') {
        if (strlen(wanted) + 32 > room)
            return -1;
        snprintf(path, room, "%s", wanted);
        int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST)
            return file;
        snprintf(path, room, "%s-%ld", wanted, pid);
    } else {
        uint32_t random = 0;
        random_bytes(&random, sizeof random);
#ifdef __linux__
        const char *folder = "/dev/shm";
#else
        const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
#endif
        snprintf(path, room, "%s/ggscope-%ld-%08x", folder, pid, random);
    }
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static bool allocate(int file, uint64_t size)
{
#ifdef __APPLE__
    fstore_t wanted = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, (off_t)size, 0};
    return fcntl(file, F_PREALLOCATE, &wanted) == 0 && ftruncate(file, (off_t)size) == 0;
#else
    return posix_fallocate(file, 0, (off_t)size) == 0;
#endif
}

static void plan(struct ring_control *control, uint64_t bytes, uint32_t n_threads)
{
    uint64_t lanes = 8;
    while (lanes < 4 * (uint64_t)n_threads && lanes < MAX_LANES)
        lanes *= 2;
    uint64_t events = power_of_two_below(bytes / 8);
    uint64_t heads = RING_PAGE + lanes * sizeof(struct ring_lane);
    heads = (heads + RING_PAGE - 1) & ~(uint64_t)(RING_PAGE - 1);
    uint64_t rest = bytes > events + heads ? bytes - events - heads : 0;
    uint64_t capacity = rest / lanes / sizeof(struct ring_record);
    capacity = power_of_two_below(capacity < 64 ? 64 : capacity);
    control->n_lanes = (uint32_t)lanes;
    control->lanes_offset = RING_PAGE;
    control->lane_capacity = capacity;
    control->events_offset = heads;
    control->events_capacity = events;
    control->records_offset = heads + events;
    control->file_size =
        heads + events + lanes * capacity * sizeof(struct ring_record);
}

static void define_program(struct ring_control *control)
{
    char line[4096];
    size_t size = process_line(line, sizeof line);
    if (size > 0 && line[size - 1] == '\0')
        size--;
    const char *version = ggml.version ? ggml.version() : "";
    struct frame frame = {0};
    frame_begin(&frame, DEF_PROGRAM, control->t0_mono);
    frame_add(&frame, &control->pid, sizeof control->pid);
    frame_text(&frame, control->program, strlen(control->program));
    frame_text(&frame, version, strlen(version));
    frame_text(&frame, line, size);
    frame_define(&frame, WITH_RING);
}

// Tell what whoever started the program wants known of this run: one line.
static void note_given(void)
{
    const char *given = getenv("GGSCOPE_NOTE");
    char text[512];
    if (given == NULL || given[0] == '\0')
        return;
    snprintf(text, sizeof text, "%s", given);
    note(text, WITH_RING);
}

// Tell that the ring is smaller than it was to be: a container has little room.
static void note_room(const char *path, const struct ring_control *control,
                      uint64_t asked, uint64_t is_free)
{
    struct ring_control planned = {0};
    plan(&planned, asked, control->n_lanes / 4);
    const char *name = strrchr(path, '/');
    char text[256], room[64] = "";
    if (is_free < asked * 2)
        snprintf(room, sizeof room, ": %.*s has %llu MiB free", (int)(name - path),
                 path, (unsigned long long)(is_free >> 20));
    snprintf(text, sizeof text,
             "The ring has %llu MiB instead of %llu MiB%s. Records are lost where a "
             "program writes more between two looks.",
             (unsigned long long)(control->file_size >> 20),
             (unsigned long long)(planned.file_size >> 20), room);
    note(text, WITH_RING);
}

struct ring *ring_make(uint32_t n_threads)
{
    if (the_ring != NULL || has_failed)
        return the_ring;
    char path[4000];
    int file = create(path, sizeof path);
    has_failed = true; // until it is whole
    if (file < 0)
        return NULL;
    uint64_t bytes = number_from("GGSCOPE_RING_SIZE", USUAL_BYTES);
    bytes = bytes < MAX_BYTES ? bytes : MAX_BYTES;
    // Half of what is free, at most: others need room, too.
    struct statvfs room;
    uint64_t asked = bytes, is_free = UINT64_MAX;
    if (fstatvfs(file, &room) == 0)
        is_free = (uint64_t)room.f_bavail * room.f_frsize;
    bytes = is_free / 2 < bytes ? is_free / 2 : bytes;
    bytes = longest_file() < bytes ? longest_file() : bytes;
    struct ring_control planned = {0};
    uint8_t *map = MAP_FAILED;
    for (bytes = bytes < MIN_BYTES ? MIN_BYTES : bytes; bytes >= MIN_BYTES;
         bytes /= 2) {
        plan(&planned, bytes, n_threads);
        if (planned.file_size <= longest_file() && allocate(file, planned.file_size)) {
            int flags = MAP_SHARED;
#ifdef MAP_POPULATE
            flags |= MAP_POPULATE;
#endif
            map = mmap(NULL, planned.file_size, PROT_READ | PROT_WRITE, flags, file, 0);
            break;
        }
        if (ftruncate(file, 0) != 0)
            break;
    }
    close(file);
    if (map == MAP_FAILED) {
        unlink(path);
        return NULL;
    }
    mapped_bytes = planned.file_size;
    struct ring_control *control = (void *)map;
    // Touch each page: what cannot be had fails here, not while a graph is computed.
    for (uint64_t at = 0; at < planned.file_size; at += RING_PAGE)
        ((volatile uint8_t *)map)[at] = 0;
    *control = planned;
    control->version = RING_VERSION;
    control->byte_order = RING_BYTE_ORDER;
    control->header_size = RING_PAGE;
    control->record_size = sizeof(struct ring_record);
    control->lane_size = sizeof(struct ring_lane);
    control->pid = (uint32_t)getpid();
    const char *mode = getenv("GGSCOPE_RING_MODE");
    control->flags = mode && strcmp(mode, "overwrite") == 0 ? RING_OVERWRITE : 0;
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    control->t0_mono = monotonic_ns();
    control->t0_real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    control->start_time = process_start();
    control->clock = clock_kind;
    control->tracer_version = TRACER_VERSION;
#ifdef __APPLE__
    const char *preload = getenv("DYLD_INSERT_LIBRARIES");
    const enum ring_door preloaded = DOOR_DYLD;
#else
    const char *preload = getenv("LD_PRELOAD");
    const enum ring_door preloaded = DOOR_PRELOAD;
#endif
    const char *backend = getenv("GGML_BACKEND_PATH");
    control->door = is_source_mode          ? DOOR_SOURCE
                    : preload && preload[0] ? preloaded
                    : backend && backend[0] ? DOOR_BACKEND_PATH
                                            : DOOR_UNKNOWN;
    random_bytes(control->identity, sizeof control->identity);
    process_file(control->program, sizeof control->program);
    control->enabled = (uint32_t)number_from("GGSCOPE_ENABLED", 1);
    control->sample_every = (uint32_t)number_from("GGSCOPE_SAMPLE", 1);
    control->state = RING_RUNS;
    if (!definitions_begin(path, control)) {
        munmap(map, mapped_bytes);
        unlink(path);
        return NULL;
    }
    ring_memory = (struct ring){
        .control = control,
        .lanes = (void *)(map + control->lanes_offset),
        .records = (void *)(map + control->records_offset),
        .events = map + control->events_offset,
        .lane_mask = control->lane_capacity - 1,
        .n_lanes = control->n_lanes,
        .overwrites = control->flags & RING_OVERWRITE,
    };
    the_ring = &ring_memory;
    has_failed = false;
    define_program(control);
    note_given();
    if (bytes < asked)
        note_room(path, control, asked, is_free);
    uint64_t magic;
    memcpy(&magic, RING_MAGIC, sizeof magic);
    __atomic_store_n((uint64_t *)control->magic, magic, __ATOMIC_RELEASE);
    return the_ring;
}

void ring_forget(void)
{
    if (the_ring != NULL)
        munmap(ring_memory.control, mapped_bytes);
    the_ring = NULL;
    has_failed = false;
    definitions_forget();
}

struct ring_lane *ring_lane_take(struct ring *ring, uint32_t slot, uint32_t ith)
{
    if (ring->lanes_used == ring->n_lanes)
        return NULL;
    uint32_t number = ring->lanes_used++;
    struct ring_lane *lane = &ring->lanes[number];
    lane->slot = (uint16_t)slot;
    lane->ith = (uint16_t)ith;
    __atomic_store_n(&lane->state, LANE_USED, __ATOMIC_RELEASE);
    struct {
        uint32_t number;
        uint16_t slot, ith;
        uint32_t tid;
    } body = {number, (uint16_t)slot, (uint16_t)ith, 0};
    struct frame frame = {0};
    frame_begin(&frame, DEF_LANE, monotonic_ns());
    frame_add(&frame, &body, sizeof body);
    frame_define(&frame, WITH_RING);
    return lane;
}

// exit() was called, or the library is taken away: what is written stays.
__attribute__((destructor)) static void ring_end(void)
{
    if (the_ring != NULL)
        __atomic_store_n(&ring_memory.control->state, RING_ENDED, __ATOMIC_RELEASE);
}
