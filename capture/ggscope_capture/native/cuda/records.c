// Begins and ends of calls: each thread writes into a ring of its own, and one thread
// puts them into the file as lines of JSON, in order of time.
//
// A call is written down whole or not at all: a begin takes its place only where the
// ends of all calls that are open in its thread still fit.
#define _GNU_SOURCE
#include "hook.h"
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORDS 32768 // in a ring; a power of two
#define MAX_FILES 4096
#define MAX_OPEN 64 // calls within calls whose duration is known
enum { IDLE_MS = 20, ERROR_WAIT_MS = 20, RETRY_NS = 1000000000 };

struct thread {
    struct thread *next;
    uint32_t tid;
    uint16_t depth;   // calls that are open in it
    uint16_t n_open;  // of these, written down
    _Atomic bool has_ended;
    _Atomic uint64_t head __attribute__((aligned(64)));
    _Atomic uint64_t n_dropped; // calls
    _Atomic uint64_t tail __attribute__((aligned(64)));
    uint64_t taken; // by the writer, until what it took is in the file
    uint64_t begun[MAX_OPEN]; // when the calls began that are written down and open
    struct record records[RECORDS];
};

enum way way;
void *(*real_dlsym)(void *handle, const char *name);

static __thread struct thread *mine __attribute__((tls_model("initial-exec")));
static _Atomic(struct thread *) threads;
static _Atomic uint64_t next_op = 1;
static _Atomic int32_t alarm_bell; // a futex: the writer looks at once
static _Atomic bool has_writer, is_over, is_broken;
static _Atomic uint64_t n_dropped; // calls of threads that got no ring, or are gone
static _Atomic uint64_t last_error_ns;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end;
static bool has_key;

// The file; whoever holds `file_lock` writes it.
static int file = -1;
static off_t file_end;        // behind the last whole line
static uint64_t n_lines;      // events in the file
static uint64_t n_lost_lines; // events that could not be written
static uint64_t full_since;   // 0: it can be written
static int write_error;
static struct lines lines;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void futex_wait(_Atomic int32_t *word, int32_t value, int ms)
{
    struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

static void ring_bell(void)
{
    atomic_fetch_add(&alarm_bell, 1);
    syscall(SYS_futex, &alarm_bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// ---- the file -------------------------------------------------------------------------

// out.jsonl, out-2.jsonl …: each process has one of its own.
static int open_numbered(const char *path)
{
    const char *folder_end = strrchr(path, '/');
    const char *dot = strrchr(path, '.');
    if (dot == NULL || dot <= (folder_end != NULL ? folder_end + 1 : path))
        dot = path + strlen(path);
    char name[4096];
    for (int number = 1; number <= MAX_FILES; number++) {
        int n = number == 1
            ? snprintf(name, sizeof name, "%s", path)
            : snprintf(name, sizeof name, "%.*s-%d%s", (int)(dot - path), path, number,
                       dot);
        if (n < 0 || n >= (int)sizeof name)
            break;
        int got = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (got >= 0 || errno != EEXIST)
            return got;
    }
    return -1;
}

static void open_file(void)
{
    char usual[64];
    const char *path = getenv("GGSCOPE_CUDA_OUT");
    if (path == NULL || *path == '\0') {
        snprintf(usual, sizeof usual, "ggscope-cuda-%d.jsonl", (int)getpid());
        path = usual;
    }
    file = open_numbered(path);
    if (file < 0) {
        is_broken = true;
        fprintf(stderr, "ggscope: calls of CUDA are not recorded: %s: %s\n", path,
                strerror(errno));
        return;
    }
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    lines_put_begin(&lines, now_ns(),
                    (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec,
                    way == WAY_CUPTI ? "CUPTI" : "driver table");
}

static uint64_t count_lines(const char *from, size_t n)
{
    uint64_t count = 0;
    for (const char *at = from; (at = memchr(at, '\n', n - (size_t)(at - from)));
         at++)
        count++;
    return count;
}

// Write what was put into `lines`. Where the disk is full, whole lines remain, and it is
// tried again later.
static void write_lines(void)
{
    size_t done = 0;
    bool may_write = !full_since || now_ns() - full_since > RETRY_NS;
    while (may_write && done < lines.n) {
        ssize_t n = pwrite(file, lines.text + done, lines.n - done,
                           file_end + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            write_error = n < 0 ? errno : ENOSPC;
            full_since = now_ns();
            break;
        }
        done += (size_t)n;
        if (done == lines.n)
            full_since = 0;
    }
    size_t whole = done;
    while (whole > 0 && lines.text[whole - 1] != '\n')
        whole--;
    if (whole < lines.n) {
        n_lost_lines += count_lines(lines.text + whole, lines.n - whole);
        if (whole < done && ftruncate(file, file_end + (off_t)whole) != 0)
            write_error = errno;
    }
    n_lines += count_lines(lines.text, whole);
    file_end += (off_t)whole;
    lines.n = 0;
}

// ---- the writer -----------------------------------------------------------------------

static const struct record *next_of(const struct thread *thread, uint64_t head)
{
    return thread->taken == head ? NULL : &thread->records[thread->taken % RECORDS];
}

// Return whose next record is the earliest; `until`: when that of another one comes.
static struct thread *earliest(uint64_t cut, uint64_t *until)
{
    struct thread *first = NULL;
    uint64_t at = cut;
    *until = cut;
    for (struct thread *t = threads; t != NULL; t = t->next) {
        const struct record *record =
            next_of(t, atomic_load_explicit(&t->head, memory_order_acquire));
        if (record == NULL || record->ns > cut)
            continue;
        if (first == NULL || record->ns < at) {
            *until = first == NULL ? cut : at;
            at = record->ns;
            first = t;
        } else if (record->ns < *until) {
            *until = record->ns;
        }
    }
    return first;
}

static void give_back(void)
{
    for (struct thread *t = threads; t != NULL; t = t->next)
        if (t->taken != atomic_load_explicit(&t->tail, memory_order_relaxed))
            atomic_store_explicit(&t->tail, t->taken, memory_order_release);
}

// Write all events up to now; whoever holds `file_lock` may.
static void drain(void)
{
    uint64_t cut = now_ns(), until;
    struct thread *thread;
    while ((thread = earliest(cut, &until)) != NULL) {
        uint64_t head = atomic_load_explicit(&thread->head, memory_order_acquire);
        const struct record *record;
        while ((record = next_of(thread, head)) != NULL && record->ns <= until) {
            lines_put(&lines, record, thread->tid);
            thread->taken++;
            if (lines.n > LINES_BYTES - LINE_BYTES) {
                write_lines();
                give_back();
            }
        }
    }
    if (lines.n)
        write_lines();
    give_back();
}

static uint64_t all_dropped(void)
{
    uint64_t n = n_dropped;
    for (struct thread *t = threads; t != NULL; t = t->next)
        n += t->n_dropped;
    return n;
}

// Put the last line behind all others. On a full disk it takes the place of some of
// them, which need no new room.
static void write_end(void)
{
    for (int tries = 0; tries < 2; tries++) {
        char text[LINE_BYTES];
        size_t n = lines_end(text, now_ns(), n_lines, 2 * all_dropped() + n_lost_lines,
                             n_left_out, write_error);
        off_t end = file_end + (off_t)n;
        ssize_t written = pwrite(file, text, n, file_end);
        if (written == (ssize_t)n && ftruncate(file, end) == 0)
            return;
        if (written < 0 || !write_error)
            write_error = written < 0 ? errno : ENOSPC;
        char tail[4 * LINE_BYTES];
        off_t from = file_end > (off_t)sizeof tail ? file_end - (off_t)sizeof tail : 0;
        ssize_t got = pread(file, tail, (size_t)(file_end - from), from);
        ssize_t at = got - LINE_BYTES;
        while (at > 0 && tail[at - 1] != '\n')
            at--;
        if (got != (ssize_t)(file_end - from) || at <= 0)
            break;
        uint64_t lost = count_lines(tail + at, (size_t)(got - at));
        n_lost_lines += lost;
        n_lines -= lost;
        file_end = from + at;
    }
    if (ftruncate(file, file_end) != 0)
        write_error = errno;
}

// Write what is left and the last line. What comes afterwards is put before it.
static void finish(void)
{
    drain();
    write_end();
}

static void *write_always(void *unused)
{
    (void)unused;
    while (!is_over) {
        int32_t bell = alarm_bell;
        pthread_mutex_lock(&file_lock);
        if (!is_over)
            drain();
        pthread_mutex_unlock(&file_lock);
        futex_wait(&alarm_bell, bell, IDLE_MS);
    }
    return NULL;
}

static void on_thread_end(void *data)
{
    struct thread *thread = data;
    mine = NULL;
    atomic_store(&thread->has_ended, true);
}

static bool start_writer(void)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    int (*make_key)(pthread_key_t *, void (*)(void *)) = NULL;
    if (real_dlsym != NULL) {
        create = (__typeof__(create))real_dlsym(NULL, "pthread_create");
        make_key = (__typeof__(make_key))real_dlsym(NULL, "pthread_key_create");
    }
    if (create == NULL || make_key == NULL)
        return false;
    if (!has_key)
        has_key = make_key(&thread_end, on_thread_end) == 0;
    // The program's signals are for its own threads.
    sigset_t all, old;
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, _NSIG / 8);
    pthread_t writer;
    bool works = create(&writer, NULL, write_always, NULL) == 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, _NSIG / 8);
    int (*detach)(pthread_t) = (__typeof__(detach))real_dlsym(NULL, "pthread_detach");
    if (works && detach != NULL)
        detach(writer);
    return works;
}

// ---- threads that call ----------------------------------------------------------------

static struct thread *reused(void)
{
    for (struct thread *t = threads; t != NULL; t = t->next) {
        bool ended = true;
        if (!atomic_load(&t->has_ended) || t->tail != t->head ||
            !atomic_compare_exchange_strong(&t->has_ended, &ended, false))
            continue;
        n_dropped += atomic_exchange(&t->n_dropped, 0);
        return t;
    }
    return NULL;
}

static struct thread *make_thread(void)
{
    if (is_broken)
        return NULL;
    int error = errno;
    pthread_mutex_lock(&start_lock);
    if (file < 0 && !is_broken)
        open_file();
    if (!has_writer && !is_broken && !is_over) {
        has_writer = start_writer();
        if (!has_writer) // without a writer each call is written when it returns
            is_over = true;
    }
    struct thread *thread = is_broken ? NULL : reused();
    if (thread == NULL && !is_broken) {
        void *memory = mmap(NULL, sizeof *thread, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            thread = memory;
            thread->next = threads;
            threads = thread;
        }
    }
    if (thread != NULL) {
        thread->tid = (uint32_t)syscall(SYS_gettid);
        thread->depth = thread->n_open = 0;
        int (*set)(pthread_key_t, const void *) =
            (__typeof__(set))real_dlsym(NULL, "pthread_setspecific");
        if (has_key && set != NULL)
            set(thread_end, thread);
    }
    pthread_mutex_unlock(&start_lock);
    errno = error;
    return mine = thread;
}

static struct record *put(struct thread *thread, uint64_t op, uint16_t function,
                          uint16_t depth, const struct details *details)
{
    uint64_t head = atomic_load_explicit(&thread->head, memory_order_relaxed);
    struct record *record = &thread->records[head % RECORDS];
    record->op = op;
    record->function = function;
    record->depth = depth;
    record->details = *details;
    return record;
}

uint64_t call_begin(uint16_t function, const struct details *details)
{
    struct thread *thread = mine;
    if (UNLIKELY(thread == NULL) && (thread = make_thread()) == NULL) {
        n_dropped++;
        return 0;
    }
    uint16_t depth = thread->depth++;
    uint64_t head = atomic_load_explicit(&thread->head, memory_order_relaxed);
    uint64_t used = head - atomic_load_explicit(&thread->tail, memory_order_acquire);
    // This one, and an end for it and for all that are open.
    if (UNLIKELY(used + thread->n_open + 2 > RECORDS)) {
        thread->n_dropped++;
        return 0;
    }
    uint64_t op = atomic_fetch_add_explicit(&next_op, 1, memory_order_relaxed);
    struct record *record = put(thread, op, function, depth, details);
    record->phase = PHASE_BEGIN;
    uint64_t ns = record->ns = now_ns();
    if (LIKELY(thread->n_open < MAX_OPEN))
        thread->begun[thread->n_open] = ns;
    thread->n_open++;
    atomic_store_explicit(&thread->head, head + 1, memory_order_release);
    if (UNLIKELY(used == RECORDS / 4))
        ring_bell();
    return op;
}

// A failed call may be the last one: let the writer have it before the program aborts.
static void wait_for_writer(const struct thread *thread, uint64_t ns)
{
    uint64_t before = last_error_ns;
    if (ns - before < 5 * ERROR_WAIT_MS * 1000000u ||
        !atomic_compare_exchange_strong(&last_error_ns, &before, ns))
        return;
    uint64_t head = thread->head;
    int error = errno;
    ring_bell();
    for (int ms = 0; ms < ERROR_WAIT_MS && thread->tail < head; ms++) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    errno = error;
}

bool is_within_call(void) { return mine != NULL && mine->depth > 0; }

void call_end(uint64_t op, uint16_t function, int32_t result,
              const struct details *details)
{
    struct thread *thread = mine;
    if (UNLIKELY(thread == NULL)) // of a parent process, or of a thread that ends
        return;
    if (thread->depth > 0)
        thread->depth--;
    if (op == 0 || thread->n_open == 0)
        return;
    struct record *record = put(thread, op, function, thread->depth, details);
    record->phase = PHASE_END;
    record->result = result;
    record->ns = now_ns();
    thread->n_open--;
    record->duration_ns =
        thread->n_open < MAX_OPEN ? record->ns - thread->begun[thread->n_open] : 0;
    uint64_t ns = record->ns;
    uint64_t head = atomic_load_explicit(&thread->head, memory_order_relaxed);
    atomic_store_explicit(&thread->head, head + 1, memory_order_release);
    if (UNLIKELY(is_over)) {
        pthread_mutex_lock(&file_lock);
        finish();
        pthread_mutex_unlock(&file_lock);
    } else if (UNLIKELY(result != 0 && result != NOT_READY)) {
        wait_for_writer(thread, ns);
    }
}

// ---- beginning and end of the process -------------------------------------------------

static void before_fork(void)
{
    pthread_mutex_lock(&start_lock);
    functions_lock();
    pthread_mutex_lock(&file_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&file_lock);
    functions_unlock();
    pthread_mutex_unlock(&start_lock);
}

// A child writes a file of its own, if it ever calls the driver.
static void in_child(void)
{
    if (file >= 0)
        close(file);
    file = -1;
    file_end = 0;
    n_lines = n_lost_lines = full_since = 0;
    write_error = 0;
    lines.n = 0;
    mine = NULL;
    threads = NULL;
    n_dropped = 0;
    has_writer = is_over = is_broken = is_attaching = false;
    after_fork();
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

__attribute__((destructor)) static void end(void)
{
    is_over = true;
    ring_bell();
    pthread_mutex_lock(&file_lock);
    if (file >= 0)
        finish();
    pthread_mutex_unlock(&file_lock);
}
