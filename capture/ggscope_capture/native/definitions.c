// The file beside the ring: what events and records refer to by number.
//
// Frames are only ever appended. They come in generations: each begins with all that
// lasts, and holds every build that one of its graphs uses. So whoever comes late begins
// with the oldest generation that is there, and the ones before it can be given back: once
// their reader has them, or, where the ring overwrites, once they are old. A hole takes no
// memory; places in the file stay as they are.

#define _GNU_SOURCE
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIN_GENERATION ((uint64_t)1 << 20)
#define MIN_HELD ((uint64_t)4 << 20)
#define MAX_HELD ((uint64_t)64 << 20)
#define MAX_LASTING ((size_t)64 << 20)
#define FIRST_PLACE ((uint64_t)sizeof(struct defs_header))

uint32_t definitions_generation = 1;

static struct ring_control *control; // of the ring that they belong to; NULL: none yet
static char path[4096];
static uint64_t generation_at; // where the present one begins
static uint64_t whole_bytes;   // of it: what each generation has to hold anew
static uint64_t most_held;
static struct frame lasting;  // of this process; every ring begins with it
static struct frame of_ring;  // of this ring
static uint64_t n_lost_once;  // what is never written again
static uint64_t n_lost_lasting;
static uint64_t n_lost_builds;

uint64_t longest_file(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? (uint64_t)limit.rlim_cur : UINT64_MAX;
}

static bool write_at(int file, const void *data, size_t size, uint64_t place)
{
    const char *from = data;
    while (size > 0) {
        ssize_t n = pwrite(file, from, size, (off_t)place);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        place += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

static uint64_t end_of_all(void) { return FIRST_PLACE + control->defs_bytes; }

static void count_lost(void)
{
    if (control != NULL)
        control->defs_lost = n_lost_once + n_lost_lasting + n_lost_builds;
}

// The file is opened anew each time: a number that is kept could be closed by the
// program and given to a file of its own.
static bool append(const void *data, size_t size)
{
    uint64_t end = end_of_all();
    uint64_t first = control->defs_first ? control->defs_first : FIRST_PLACE;
    if (end + size - first > most_held || end + size > longest_file())
        return false;
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return false;
    bool is_written = write_at(file, data, size, end);
    // Half a frame is written over by the next one; nobody reads it until then.
    if (!is_written && ftruncate(file, (off_t)end) != 0)
        is_written = false;
    close(file);
    if (is_written)
        __atomic_store_n(&control->defs_bytes, control->defs_bytes + size,
                         __ATOMIC_RELEASE);
    return is_written;
}

bool frame_define(struct frame *frame, enum lasts lasts)
{
    bool is_written = true;
    if (frame_finish(frame)) {
        struct frame *log = lasts == WITH_PROCESS ? &lasting
                            : lasts == WITH_RING  ? &of_ring
                                                  : NULL;
        if (log != NULL && log->size < MAX_LASTING)
            frame_add(log, frame->bytes, frame->size);
        if (control != NULL) {
            is_written = append(frame->bytes, frame->size);
            if (lasts >= FROM_TABLE)
                whole_bytes += frame->size;
            if (!is_written && lasts == ONCE)
                n_lost_once++;
            else if (!is_written && lasts != WHOLE_BUILD && lasts != LIKE_BUILD)
                n_lost_lasting++;
            count_lost();
        }
    }
    free(frame->bytes);
    *frame = (struct frame){0};
    return is_written;
}

void builds_lost(int64_t more)
{
    n_lost_builds += (uint64_t)more;
    count_lost();
}

// Begin a generation with what lasts.
static bool begin_generation(void)
{
    uint64_t begin = end_of_all();
    generation_at = begin;
    whole_bytes = 0;
    n_lost_lasting = 0;
    bool is_written = append(of_ring.bytes, of_ring.size) &&
                   append(lasting.bytes, lasting.size);
    n_lost_lasting += !is_written;
    lasting_write();
    whole_bytes = end_of_all() - begin;
    count_lost();
    return is_written;
}

static void give_back(uint64_t until)
{
    uint64_t from = RING_PAGE; // the head stays
    until &= ~(uint64_t)(RING_PAGE - 1);
    int file = until > from ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (file < 0)
        return;
#ifdef __APPLE__
    struct fpunchhole hole = {0, 0, (off_t)from, (off_t)(until - from)};
    fcntl(file, F_PUNCHHOLE, &hole);
#else
    int error = errno;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(until - from)) != 0)
        errno = error; // a file system without holes keeps them: more of its room is used
#endif
    close(file);
}

void definitions_renew(void)
{
    if (end_of_all() - generation_at < MIN_GENERATION + 2 * whole_bytes)
        return;
    uint64_t taken = __atomic_load_n(&control->defs_tail, __ATOMIC_ACQUIRE);
    if (!(control->flags & RING_OVERWRITE) && taken < generation_at)
        return;
    // Readers look at where the oldest begins before they read, and after.
    __atomic_store_n(&control->defs_first, generation_at, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    give_back(generation_at);
    definitions_generation++;
    begin_generation();
}

bool definitions_begin(const char *ring_path, struct ring_control *of)
{
    control = of;
    struct defs_header head = {.version = RING_VERSION, .byte_order = RING_BYTE_ORDER};
    memcpy(head.magic, DEFS_MAGIC, sizeof head.magic);
    memcpy(head.identity, control->identity, sizeof head.identity);
    snprintf(path, sizeof path, "%s%s", ring_path, DEFS_SUFFIX);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        control = NULL;
        return false;
    }
    // Where nobody reads the ring nothing is given back: then they may take half of what
    // the ring takes, and of what is free.
    most_held = control->file_size / 2 < MIN_HELD  ? MIN_HELD
                : control->file_size / 2 > MAX_HELD ? MAX_HELD
                                                     : control->file_size / 2;
    struct statvfs room;
    uint64_t least = lasting.size + MIN_GENERATION;
    if (fstatvfs(file, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize / 2 < most_held)
        most_held = (uint64_t)room.f_bavail * room.f_frsize / 2;
    most_held = most_held < least ? least : most_held;
    bool is_written = sizeof head <= longest_file() &&
                      write_at(file, &head, sizeof head, 0);
    close(file);
    n_lost_once = n_lost_builds = 0;
    definitions_generation++;
    is_written = is_written && begin_generation();
    if (!is_written) {
        unlink(path);
        control = NULL;
    }
    return is_written;
}

void definitions_forget(void)
{
    control = NULL;
    of_ring.size = 0;
    n_lost_once = n_lost_lasting = n_lost_builds = 0;
}
