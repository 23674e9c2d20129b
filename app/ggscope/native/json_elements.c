/* Where the elements of a list in a JSON text begin and end.
 *
 * Brackets, strings and commas are all that is looked at; whether an element is JSON is
 * for a decoder to say. Nothing is allocated and no state is kept; bytes are read only
 * in [data, data + size).
 */
#include "json_bytes.h"
#include "native.h"

enum { MORE, CLOSED, NO_VALUE, NO_COMMA }; /* why a scan ended: json_cursor.py */

/* Go behind the value that begins here: to where it begins if there is none, to NULL
 * where the text ends before. */
static const uint8_t *behind_value(const uint8_t *p, const uint8_t *end)
{
    int64_t depth = 0;
    int is_escaped;
    if (*p != '"' && *p != '{' && *p != '[') {
        while (p < end && !is_blank(*p) && !memchr(",:\"[]{}", *p, 7))
            p++;
        return p < end ? p : NULL; /* it could go on */
    }
    do {
        p = next_of(p, end, '"', 0x26, 0x7F); /* brackets, and some that are none */
        if (p < end && *p == '"')
            p = closing_quote(p + 1, end, &is_escaped);
        if (p == end)
            return NULL;
        depth += (*p | 0x20) == '{';
        depth -= (*p++ | 0x20) == '}';
    } while (depth);
    return p;
}

/* Note the whole elements from here on; return how many bytes they take up.
 *
 * follows: whether an element stands before the text, so that a comma must come.
 * tally: written: the number of elements, why the scan ended, and where a value or a
 * comma is missing. A list that is CLOSED ends at the byte behind those taken up. */
EXPORT int64_t ggscope_json_elements(const uint8_t *data, int64_t size, int64_t follows,
                                     int64_t capacity, int64_t *begin, int64_t *finish,
                                     int64_t *tally)
{
    const uint8_t *p = data, *const end = data + size;
    int64_t length = 0, n = 0;
    int after_comma = 0;
    tally[1] = MORE;
    while (n < capacity) {
        while (p < end && is_blank(*p))
            p++;
        if (!after_comma) /* blanks alone need not be read again */
            length = p - data;
        if (p == end)
            break;
        const int wants_comma = (follows || n) && !after_comma;
        if (*p == ']' && !after_comma) {
            tally[1] = CLOSED;
            break;
        }
        if (wants_comma && *p == ',') {
            after_comma = 1;
            p++;
            continue;
        }
        const uint8_t *const behind = wants_comma ? p : behind_value(p, end);
        if (!behind)
            break;
        if (behind == p) {
            tally[1] = wants_comma ? NO_COMMA : NO_VALUE;
            tally[2] = p - data;
            break;
        }
        begin[n] = p - data;
        finish[n++] = behind - data;
        p = behind;
        after_comma = 0;
    }
    tally[0] = n;
    return n == capacity && n ? finish[n - 1] : length;
}
