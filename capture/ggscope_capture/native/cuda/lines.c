// Formats events. Numbers are written digit by digit: printf takes ten times as long.
#define _GNU_SOURCE
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *put_text(char *at, const char *text)
{
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}
#define PUT(at, text) (memcpy(at, text, sizeof text - 1), at + sizeof text - 1)

static char *put_number(char *at, uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *at++ = digits[--n];
    return at;
}

static char *put_address(char *at, uint64_t value)
{
    char digits[16];
    int n = 0;
    do
        digits[n++] = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    at = PUT(at, "\"0x");
    while (n)
        *at++ = digits[--n];
    *at++ = '"';
    return at;
}

static char *put_time(char *at, uint64_t ns)
{
    at = put_number(at, ns / 1000000000u);
    *at++ = '.';
    uint32_t rest = (uint32_t)(ns % 1000000000u);
    for (int i = 8; i >= 0; i--, rest /= 10)
        at[i] = (char)('0' + rest % 10);
    return at + 9;
}

static char *put_three(char *at, const uint32_t *values)
{
    *at++ = '[';
    for (int i = 0; i < 3; i++) {
        at = put_number(at, values[i]);
        *at++ = i < 2 ? ',' : ']';
    }
    return at;
}

// A string of JSON; bytes that are not plain text become question marks.
static char *put_string(char *at, const char *text, size_t most)
{
    *at++ = '"';
    for (size_t i = 0; text[i] != '\0' && i < most; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            *at++ = '\\';
        *at++ = c < ' ' || c > '~' ? '?' : (char)c;
    }
    *at++ = '"';
    return at;
}

static char *put_begin_details(char *at, const struct details *d)
{
    static const char *const WAYS[] = {
        "", "host_to_device", "device_to_host", "device_to_device", "host_to_host",
    };
    if (d->has_size) {
        at = PUT(at, "\"size\":");
        at = put_number(at, d->size);
        *at++ = ',';
    }
    if (d->direction != NO_DIRECTION) {
        at = PUT(at, "\"direction\":\"");
        at = put_text(at, WAYS[d->direction]);
        at = PUT(at, "\",");
    }
    if (d->address) {
        at = d->has_launch ? PUT(at, "\"function\":") : PUT(at, "\"ptr\":");
        at = put_address(at, d->address);
        *at++ = ',';
    }
    if (d->kernel != NULL) {
        at = PUT(at, "\"kernel\":");
        at = put_string(at, d->kernel, 250);
        *at++ = ',';
    }
    if (d->has_launch) {
        at = PUT(at, "\"grid\":");
        at = put_three(at, d->launch);
        at = PUT(at, ",\"block\":");
        at = put_three(at, d->launch + 3);
        at = PUT(at, ",\"shared_mem\":");
        at = put_number(at, d->launch[6]);
        at = PUT(at, ",\"stream\":");
        at = put_address(at, d->stream);
        *at++ = ',';
    }
    return at;
}

// Bytes by time, where the call lasts as long as the copy: asynchronous ones return
// before.
static char *put_rate(char *at, const struct record *record, const char *name)
{
    const struct details *d = &record->details;
    bool is_copy = strncmp(name, "cuMemcpy", 8) == 0 && strstr(name, "Async") == NULL;
    bool waits = d->direction == HOST_TO_DEVICE || d->direction == DEVICE_TO_HOST;
    if (!is_copy || !waits || !d->has_size || !record->duration_ns || record->result)
        return at;
    uint64_t hundredths = d->size * 100 / record->duration_ns;
    at = PUT(at, "\"bandwidth_gbps\":");
    at = put_number(at, hundredths / 100);
    *at++ = '.';
    *at++ = (char)('0' + hundredths / 10 % 10);
    *at++ = (char)('0' + hundredths % 10);
    *at++ = ',';
    return at;
}

void lines_put(struct lines *lines, const struct record *record, uint32_t tid)
{
    char *at = lines->text + lines->n;
    const char *name = functions[record->function].name;
    at = PUT(at, "{\"ts\":");
    at = put_time(at, record->ns);
    at = PUT(at, ",\"op_id\":");
    at = put_number(at, record->op);
    at = PUT(at, ",\"tid\":");
    at = put_number(at, tid);
    at = PUT(at, ",\"depth\":");
    at = put_number(at, record->depth);
    at = record->phase == PHASE_BEGIN ? PUT(at, ",\"phase\":\"B\",\"name\":\"")
                                      : PUT(at, ",\"phase\":\"E\",\"name\":\"");
    at = put_text(at, name);
    *at++ = '"';
    if (record->phase == PHASE_END) {
        at = PUT(at, ",\"result\":");
        if (record->result < 0)
            *at++ = '-';
        at = put_number(at, (uint64_t)(record->result < 0 ? -(int64_t)record->result
                                                          : record->result));
    }
    char *const open = at;
    at = PUT(at, ",\"details\":{");
    char *const inside = at;
    if (record->phase == PHASE_BEGIN)
        at = put_begin_details(at, &record->details);
    else {
        const struct recipe *recipe = functions[record->function].recipe;
        if (recipe != NULL && recipe->given && record->details.address) {
            at = PUT(at, "\"ptr\":");
            at = put_address(at, record->details.address);
            *at++ = ',';
        }
        at = put_rate(at, record, name);
    }
    if (at > inside)
        at[-1] = '}'; // in the place of the last comma
    else
        at = open;
    at = PUT(at, "}\n");
    lines->n = (size_t)(at - lines->text);
}

void lines_put_begin(struct lines *lines, uint64_t ns, uint64_t epoch_ns,
                     const char *way_name)
{
    char program[256] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *at = lines->text + lines->n;
    at = PUT(at, "{\"trace\":\"ggscope-cuda\",\"version\":1,\"pid\":");
    at = put_number(at, (uint64_t)getpid());
    at = PUT(at, ",\"program\":");
    at = put_string(at, program, sizeof program);
    at = PUT(at, ",\"way\":");
    at = put_string(at, way_name, 32);
    at = PUT(at, ",\"ts\":");
    at = put_time(at, ns);
    at = PUT(at, ",\"epoch_ns\":");
    at = put_number(at, epoch_ns);
    at = PUT(at, "}\n");
    lines->n = (size_t)(at - lines->text);
}

size_t lines_end(char *into, uint64_t ns, uint64_t n_lines, uint64_t n_dropped,
                 uint32_t n_left_out, int error)
{
    char *at = PUT(into, "{\"trace\":\"ggscope-cuda\",\"end\":true,\"ts\":");
    at = put_time(at, ns);
    at = PUT(at, ",\"lines\":");
    at = put_number(at, n_lines);
    at = PUT(at, ",\"dropped\":");
    at = put_number(at, n_dropped);
    at = PUT(at, ",\"functions_left_out\":");
    at = put_number(at, n_left_out);
    if (error) {
        at = PUT(at, ",\"write_error\":");
        at = put_string(at, error == ENOSPC ? "disk full" : error == EFBIG
                            ? "file too large" : strerror(error), 100);
    }
    at = PUT(at, "}\n");
    return (size_t)(at - into);
}
