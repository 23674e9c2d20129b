/* Keys that an object of a JSON text names twice, which decoders pass over.
 *
 * The text must be whole values that a decoder has taken: here only strings, braces
 * and colons are looked at. Nothing is allocated and no state is kept; bytes are read
 * only in [data, data + size).
 */
#include "json_repeats.h"

#include "json_bytes.h"
#include "native.h"

enum { REPEAT_DEPTH = 64, REPEAT_KEYS = 256, UNTOLD = -1 };

typedef struct {
    uint64_t sign; /* of the length and the first bytes */
    const uint8_t *start;
    int64_t length;
} Key;

static Key key_of(const uint8_t *start, int64_t length)
{
    uint64_t word = 0;
    memcpy(&word, start, length < 8 ? (size_t)length : 8);
    const Key key = {
        word ^ (uint64_t)length * UINT64_C(0x9E3779B97F4A7C15), start, length,
    };
    return key;
}

static int is_among(const Key *keys, int n, const Key *key)
{
    for (int i = 0; i < n; i++)
        if (keys[i].sign == key->sign && keys[i].length == key->length &&
            !memcmp(keys[i].start, key->start, (size_t)key->length))
            return 1;
    return 0;
}

/* Return how many keys are named again in their object; UNTOLD where keys are
 * escaped, too many or too deep.
 *
 * place: where the first one begins, and its length. */
EXPORT int64_t ggscope_json_repeats(const uint8_t *data, int64_t size, int64_t *place)
{
    Key keys[REPEAT_KEYS];
    int first[REPEAT_DEPTH]; /* key of each open object */
    int depth = 0, n_keys = 0;
    int64_t found = 0;
    const uint8_t *p = data, *const end = data + size;
    for (;;) {
        p = next_of(p, end, '"', 6, 0x7F); /* { and }, and some that are none */
        if (p == end)
            return found;
        const uint8_t byte = *p++;
        if (byte == '{') {
            if (depth == REPEAT_DEPTH)
                return UNTOLD;
            first[depth++] = n_keys;
        } else if (byte == '}') {
            if (!depth)
                return UNTOLD;
            n_keys = first[--depth];
        } else if (byte == '"') {
            const uint8_t *const start = p;
            int is_escaped = 0;
            p = closing_quote(p, end, &is_escaped);
            if (p == end)
                return UNTOLD;
            const int64_t length = p++ - start;
            const uint8_t *next = p;
            while (next < end && is_blank(*next))
                next++;
            if (next == end || *next != ':')
                continue;
            if (is_escaped || n_keys == REPEAT_KEYS || !depth)
                return UNTOLD;
            p = next + 1;
            const Key key = key_of(start, length);
            if (!is_among(keys + first[depth - 1], n_keys - first[depth - 1], &key)) {
                keys[n_keys++] = key;
                continue;
            }
            if (!found++) {
                place[0] = start - data;
                place[1] = length;
            }
        }
    }
}
