// Records calls of the CUDA driver: what the parts of the hook say to each other.
//
// Nothing of CUDA's headers is needed to build it. What is declared here are public
// facts: names and arguments of functions, and the callback of CUPTI;
// tests/capture/cuda_headers.c compares them with NVIDIA's headers.

#ifndef GGSCOPE_CUDA_HOOK_H
#define GGSCOPE_CUDA_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// ---- records.c: what threads write down, and the file that it comes into -------------

enum phase { PHASE_BEGIN, PHASE_END };
enum direction {
    NO_DIRECTION, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST,
};

// What a call is given, or gives back; zero where it does not have it.
struct details {
    uint64_t size;      // bytes
    uint64_t address;   // of memory that is allocated or freed, or of a kernel
    uint64_t stream;
    const char *kernel; // its name, where that is known
    uint32_t launch[7]; // grid, block, bytes of shared memory
    uint8_t direction;
    bool has_size, has_launch;
};

// Write down that a function is called; `function` is one of `functions`. Returns the
// number of the call; 0: there was no room for it.
uint64_t call_begin(uint16_t function, const struct details *details);
// Write down that it has returned; `details` may hold what it gave back.
void call_end(uint64_t op, uint16_t function, int32_t result,
              const struct details *details);
// Whether this thread is in a call.
bool is_within_call(void);

enum way { WAY_NONE, WAY_TABLE, WAY_CUPTI };
extern enum way way;

// ways.c: whether slots are being looked through now.
extern _Atomic bool is_attaching;

// Look up a function of the system's library, at run time: newer and older ones have it
// in different objects.
extern void *(*real_dlsym)(void *handle, const char *name);

// ---- driver.c: functions of the driver ----------------------------------------------

#define MAX_FUNCTIONS 1536
#define NAME_BYTES 64

// How a function's arguments are to be read.
struct recipe {
    const char *name;
    int8_t size;        // which argument holds bytes, from 1; 0 none
    int8_t unit;        // bytes that one of it counts
    int8_t given;       // which argument points to an address that is given back
    int8_t freed;       // which argument is an address
    uint8_t direction;
    uint8_t shape;
};
enum shape {
    PLAIN, LAUNCH, LAUNCH_EX, COPY_2D, COPY_3D, NAMES_KERNEL, TURNS_KERNEL,
};

struct function {
    void *real;
    const struct recipe *recipe; // NULL: nothing to be read
    char name[NAME_BYTES];       // without suffixes of version and stream
};
extern struct function functions[MAX_FUNCTIONS];
extern _Atomic uint32_t n_functions, n_left_out;

// Return the function to be called in the place of `real`.
void *wrapper_of(const char *name, void *real);
// Return the number of a function that is not wrapped; UINT16_MAX: no more room.
uint16_t function_named(const char *name, void *key);
// Remember what the kernel with a handle is called.
void kernel_set_name(uint64_t handle, const char *name);
void functions_lock(void);
void functions_unlock(void);
// Read the arguments of a call, as words; `is_packed`: as CUPTI has them.
void read_arguments(const struct function *function, const uint64_t *words,
                    bool is_packed, struct details *details);
// Read what a call gave back.
void read_results(const struct function *function, const uint64_t *words,
                  struct details *details);

// Declarations of the driver's public interface, as far as they are read.
struct launch_config { // CUlaunchConfig
    uint32_t grid[3], block[3], shared;
    void *stream;
};
struct launch_parameters { // arguments of cuLaunchKernel, as CUPTI has them
    void *function;
    uint32_t grid[3], block[3], shared;
    void *stream;
};
struct copy_2d { // CUDA_MEMCPY2D
    struct copy_2d_side {
        uint64_t x, y;
        uint32_t memory;
        void *host;
        uint64_t device;
        void *array;
        uint64_t pitch;
    } from, to;
    uint64_t width, height;
};
struct copy_3d { // CUDA_MEMCPY3D
    struct copy_3d_side {
        uint64_t x, y, z, lod;
        uint32_t memory;
        void *host;
        uint64_t device;
        void *array, *reserved;
        uint64_t pitch, height;
    } from, to;
    uint64_t width, height, depth;
};
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3 };
enum { NOT_READY = 600 }; // CUDA_ERROR_NOT_READY

struct cupti_call { // CUpti_CallbackData
    uint32_t site; // 0 enter, 1 exit
    const char *function;
    const void *arguments;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *own; // kept from enter to exit
    uint32_t correlation;
};
enum { CUPTI_DRIVER_API = 1, CUPTI_ENTER = 0, CUPTI_EXIT = 1 };

#endif
