/* Calls the driver, looked up in the way that its first argument names: linked, dlsym or
 * proc (cuGetProcAddress); what it does then the others name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { char bytes[64]; } Handle;
typedef struct {
    size_t a, b;
    unsigned from;
    void *c;
    uint64_t d;
    void *e;
    size_t f, g, h;
    unsigned to;
    void *i;
    uint64_t j;
    void *k;
    size_t l, width, height;
} Copy;

#define FUNCTIONS(do) \
    do(cuInit, , (unsigned)) \
    do(cuMemAlloc, _v2, (uint64_t *, size_t)) \
    do(cuMemFree, _v2, (uint64_t)) \
    do(cuMemcpyHtoD, _v2, (uint64_t, const void *, size_t)) \
    do(cuMemcpyDtoHAsync, _v2_ptsz, (void *, uint64_t, size_t, void *)) \
    do(cuMemcpy2D, _v2, (const Copy *)) \
    do(cuLaunchKernel, , (void *, unsigned, unsigned, unsigned, unsigned, unsigned, \
                          unsigned, unsigned, void *, void **, void **)) \
    do(cuModuleGetFunction, , (void **, void *, const char *)) \
    do(cuStreamSynchronize, , (void *)) \
    do(cuEventQuery, , (void *)) \
    do(cuParamSetf, , (void *, int, float)) \
    do(cuIpcOpenMemHandle, _v2, (uint64_t *, Handle, unsigned)) \
    do(cuLaunchHostFunc, , (void *, void (*)(void *), void *))
#define POINTER(name, suffix, arguments) int(*name) arguments;
static struct { FUNCTIONS(POINTER) } f;
#ifdef LINKED
#define DECLARE(name, suffix, arguments) int name##suffix arguments;
FUNCTIONS(DECLARE)
#endif

static void look_up(const char *way)
{
#ifdef LINKED
#define LINK(name, suffix, arguments) f.name = name##suffix;
    FUNCTIONS(LINK)
    (void)way;
#else
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, uint64_t, int *) =
        dlsym(driver, "cuGetProcAddress_v2");
    const int by_get = !strcmp(way, "proc");
#define LOOK_UP(name, suffix, arguments) \
    if (by_get) \
        get(#name, (void **)&f.name, 12000, 0, NULL); \
    else \
        f.name = dlsym(driver, #name #suffix);
    FUNCTIONS(LOOK_UP)
#endif
}

static void call_back(void *data)
{
    uint64_t pointer;
    f.cuMemAlloc(&pointer, *(size_t *)data);
}

static void every_kind(void)
{
    uint64_t pointer = 0;
    size_t inner = 77;
    void *kernel = NULL;
    Handle handle;
    for (int i = 0; i < 64; i++)
        handle.bytes[i] = (char)i;
    const Copy copy = {.from = 2, .to = 1, .width = 100, .height = 20};
    f.cuMemAlloc(&pointer, 4000000);
    f.cuMemcpyHtoD(pointer, &pointer, 400000);
    f.cuMemcpyDtoHAsync(&pointer, pointer, 8, (void *)7);
    f.cuMemcpy2D(&copy);
    f.cuModuleGetFunction(&kernel, NULL, "mul_mat_q<8, \"x\">");
    f.cuLaunchKernel(kernel, 128, 2, 1, 256, 1, 3, 4096, (void *)9, (void *)10,
                   (void *)11);
    f.cuStreamSynchronize(NULL);
    if (f.cuEventQuery(NULL) != 600)
        exit(98);
    f.cuParamSetf(NULL, 4, 1.5f);
    f.cuIpcOpenMemHandle(&pointer, handle, 1);
    f.cuLaunchHostFunc(NULL, call_back, &inner);
    if (f.cuMemAlloc(&pointer, (size_t)1 << 41) != 2)
        exit(97);
    f.cuMemFree(0x700000000000);
}

static long n_calls;

static void *many(void *unused)
{
    (void)unused;
    for (long i = 0; i < n_calls; i++)
        f.cuLaunchKernel((void *)0x55, 128, 2, 1, 256, 1, 3, 4096, (void *)9, (void *)10,
                       (void *)11);
    return NULL;
}

static void late(void) { f.cuMemFree(0x700000000000); }

int main(int n, char **words)
{
    look_up(n > 1 ? words[1] : "dlsym");
    const char *const what = n > 2 ? words[2] : "kinds";
    n_calls = n > 3 ? atol(words[3]) : 1000;
    if (!strcmp(what, "late"))
        atexit(late);
    f.cuInit(0);
    if (!strcmp(what, "kinds")) {
        every_kind();
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, many, NULL);
            for (int i = 0; i < 4; i++)
                pthread_join(threads[i], NULL);
        }
    } else if (!strcmp(what, "paced")) { /* ns per call, which takes 2 us by itself */
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (long i = 0; i < n_calls; i++)
            f.cuMemcpyHtoD(0, NULL, 8000);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 +
                          (double)(end.tv_nsec - begin.tv_nsec)) / (double)n_calls);
    } else if (!strcmp(what, "fork")) {
        for (int i = 0; i < 2; i++)
            if (fork() == 0) {
                f.cuStreamSynchronize(NULL);
                exit(0);
            }
        f.cuMemFree(0x700000000000);
        while (wait(NULL) > 0) {}
    } else if (!strcmp(what, "child")) { /* starts another program, as it was started */
        if (fork() == 0)
            execlp(words[0], words[0], words[1], "kinds", (char *)NULL);
        while (wait(NULL) > 0) {}
    } else if (!strcmp(what, "abort")) {
        uint64_t pointer;
        f.cuMemAlloc(&pointer, (size_t)1 << 41);
        abort();
    } else if (!strcmp(what, "next")) { /* who asks matters for RTLD_NEXT */
        void *const libc = dlopen("libc.so.6", RTLD_NOW);
        return dlsym(RTLD_NEXT, "getppid") != dlsym(libc, "getppid") ||
               dlsym(RTLD_DEFAULT, "getppid") != dlsym(libc, "getppid") ||
               dlsym(RTLD_DEFAULT, "no_such_function") != NULL;
    } else if (!strcmp(what, "steps")) { /* a round of calls for each line of input */
        atexit(late);
        puts("ready");
        fflush(stdout);
        for (int c; (c = getchar()) != EOF;)
            if (c == '\n')
                every_kind();
    } else if (!strcmp(what, "wait")) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    return 0;
}
