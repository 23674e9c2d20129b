/* Finds keys that an object of a JSON text names twice, which decoders pass over. */
#include "json_repeats.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { VERSION = 1 };

EXPORT int32_t ggscope_json_repeats_version(void)
{
    return VERSION;
}

/* See n_repeats. */
EXPORT int64_t ggscope_json_repeats(const uint8_t *data, int64_t size, int64_t *place)
{
    return n_repeats(data, size, place);
}
