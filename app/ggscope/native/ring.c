/* Records of a program that runs become the columns of spans, in one pass. */
#include "native.h"

/* live/ring.py: RECORD */
typedef struct {
    uint64_t t0;
    uint32_t op_ns, wait_ns, node, graph;
    uint16_t lane, op;
    uint32_t extra;
} Record;

_Static_assert(sizeof(Record) == 32, "a record of a ring has 32 bytes");

typedef struct {
    /* Of each graph that records name, by ascending number. */
    const uint32_t *graph;
    const int64_t *first, *n_nodes;
    const int32_t *token;
    const int8_t *phase;
    int64_t n_graphs;
    /* Of each node; the first one stands for those that are not known. */
    const int32_t *name, *pattern;
    const int16_t *layer;
    int64_t n_nodes_all, origin, far, most_ops;
    int32_t graph_name, no_end, begin_only, whole_graph;
    int64_t no_wait, longest_wait;
} RingFacts;

typedef struct {
    int64_t *start, *end;
    int32_t *name, *token, *pattern;
    int16_t *op, *layer;
    uint16_t *flags;
    uint32_t *wait;
    int8_t *phase;
} RingSpans;

/* Return where a graph stands among the known ones, or -1. */
static int64_t graph_at(const RingFacts *facts, uint32_t number)
{
    int64_t low = 0, high = facts->n_graphs;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (facts->graph[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < facts->n_graphs && facts->graph[low] == number ? low : -1;
}

/* data: n records of 32 bytes; each column has room for n. */
EXPORT void ggscope_ring_spans(const uint8_t *data, int64_t n, const RingFacts *facts,
                               const RingSpans *to)
{
    const Record *records = (const Record *)(const void *)data;
    int64_t at = -1;
    for (int64_t i = 0; i < n; i++) {
        const Record *record = records + i;
        if (!i || record->graph != records[i - 1].graph)
            at = graph_at(facts, record->graph);
        const uint64_t far = (uint64_t)facts->far;
        const int64_t t0 = (int64_t)(record->t0 < far ? record->t0 : far);
        int64_t node = 0;
        if (at >= 0 && record->node < facts->n_nodes[at])
            node = facts->first[at] + record->node;
        if (node >= facts->n_nodes_all)
            node = 0;
        const int is_graph = (record->extra & (uint32_t)facts->whole_graph) != 0;
        const int is_begin = (record->extra & (uint32_t)facts->begin_only) != 0;
        const int is_op = !is_graph && record->op < facts->most_ops;
        to->start[i] = t0 - facts->origin;
        to->end[i] = to->start[i] + record->op_ns;
        to->name[i] = is_graph ? facts->graph_name : facts->name[node];
        to->op[i] = is_op ? (int16_t)record->op : -1;
        to->flags[i] = is_begin ? (uint16_t)facts->no_end : 0;
        const int64_t wait = record->wait_ns;
        to->wait[i] = (uint32_t)(is_graph || is_begin          ? facts->no_wait
                                 : wait < facts->longest_wait ? wait
                                                              : facts->longest_wait);
        to->layer[i] = facts->layer[node];
        to->pattern[i] = facts->pattern[node];
        to->token[i] = at >= 0 ? facts->token[at] : -1;
        to->phase[i] = at >= 0 ? facts->phase[at] : -1;
    }
}
