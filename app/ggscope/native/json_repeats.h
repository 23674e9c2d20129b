#ifndef GGSCOPE_JSON_REPEATS_H
#define GGSCOPE_JSON_REPEATS_H

#include <stdint.h>

int64_t ggscope_json_repeats(const uint8_t *data, int64_t size, int64_t *place);

#endif
