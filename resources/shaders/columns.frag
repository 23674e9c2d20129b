#version 330 core
// One fragment per row and pixel column: hue of the category that covers most of it,
// opacity from the covered share. `RowColumns.query` and `column_pixels` in numpy
// are the other half of this pair; tests hold the two together.
#include "ticks.glsl"
#include "held_row.glsl"
const int MAX_CATEGORIES = 64;
uniform usamplerBuffer edges;       // int64
uniform usamplerBuffer categories;  // one per span
uniform usamplerBuffer sums;        // int64[buckets + 1, categories]
uniform usamplerBuffer colors;      // per category: 0xRRGGBB, and 0xAARRGGBB of its foot
uniform usampler2D found;           // of edges.frag
uniform float floor_opacity;
layout(location = 0) out vec4 color;
layout(location = 1) out vec4 foot;  // opaque where the column holds a span

struct Row {
    int offset;          // of its times
    int n_spans;
    int name_offset;     // of its categories
    int sum_offset;
    int n_categories;
    int bucket;          // spans per entry of the running sums
};
struct Edge {
    int n;               // spans that begin before it
    uvec2 covered;       // time they cover before it
    uvec2 tick;
};

// Time of each category in the column; only written where nothing cheaper decides.
uvec2 share[MAX_CATEGORIES];

int name_at(Row row, int i) {
    int name = int(texelFetch(categories, row.name_offset + i).x);
    return min(name, row.n_categories - 1);
}

int heaviest(Row row) {
    int best = 0;
    for (int c = 1; c < row.n_categories; ++c)
        if (less(share[best], share[c])) best = c;
    return best;
}

// Few spans: add them up one by one.
int dominant_of_spans(Row row, Edge left, Edge right, int first) {
    for (int c = 0; c < row.n_categories; ++c) share[c] = uvec2(0u);
    for (int i = first; i < right.n; ++i) {
        uvec2 end = least(end_at(row.offset + i), right.tick);
        uvec2 start = greatest(start_at(row.offset + i), left.tick);
        int name = name_at(row, i);
        share[name] = plus(share[name], minus(end, start));
    }
    return heaviest(row);
}

// Add what lies between the bucket and the edge, so that `share` holds the sum of
// whole spans before the edge, less what the last of them covers behind it.
void add_between(Row row, Edge edge, int bucket, bool adds) {
    int from = bucket * row.bucket;
    bool grows = adds == (from <= edge.n);
    for (int i = min(from, edge.n); i < max(from, edge.n); ++i) {
        uvec2 part = minus(end_at(row.offset + i), start_at(row.offset + i));
        int name = name_at(row, i);
        share[name] = grows ? plus(share[name], part) : minus(share[name], part);
    }
    if (edge.n == 0) return;
    uvec2 end = end_at(row.offset + edge.n - 1);
    if (!less(edge.tick, end)) return;
    uvec2 overhang = minus(end, edge.tick);
    int name = name_at(row, edge.n - 1);
    share[name] = adds ? minus(share[name], overhang) : plus(share[name], overhang);
}

// Many spans: compare running sums at the buckets nearest to the edges. Where the
// winner leads by more than lies between edges and buckets, that is the answer.
int dominant_of_sums(Row row, Edge left, Edge right) {
    int last = row.n_spans / row.bucket;
    int q0 = min((left.n + row.bucket / 2) / row.bucket, last);
    int q1 = min((right.n + row.bucket / 2) / row.bucket, last);
    int at0 = row.sum_offset + q0 * row.n_categories;
    int at1 = row.sum_offset + q1 * row.n_categories;
    uvec2 best = uvec2(0u), second = uvec2(0u);
    int winner = 0;
    for (int c = 0; c < row.n_categories; ++c) {
        uvec2 part = minus(texelFetch(sums, at1 + c).xy, texelFetch(sums, at0 + c).xy);
        if (less(best, part)) {
            second = best;
            best = part;
            winner = c;
        } else if (less(second, part)) {
            second = part;
        }
    }
    uvec2 moved = plus(
        distance_of(covered_by(row.offset, q0 * row.bucket), left.covered),
        distance_of(covered_by(row.offset, q1 * row.bucket), right.covered));
    if (less(moved, minus(best, second))) return winner;
    for (int c = 0; c < row.n_categories; ++c)
        share[c] = minus(texelFetch(sums, at1 + c).xy, texelFetch(sums, at0 + c).xy);
    add_between(row, right, q1, true);
    add_between(row, left, q0, false);
    return heaviest(row);
}

// 0xAARRGGBB as 0..1.
vec4 channels(uint argb) {
    return vec4((argb >> 16) & 255u, (argb >> 8) & 255u, argb & 255u, argb >> 24) / 255.0;
}

void main() {
    int k = int(gl_FragCoord.x), y = int(gl_FragCoord.y);
    uvec4 here = texelFetch(found, ivec2(k, y), 0);
    uvec4 behind = texelFetch(found, ivec2(k + 1, y), 0);
    // A span that goes on over the left edge touches the column too.
    int first = int(here.x) - int(here.w), count = int(behind.x) - first;
    if (count <= 0) {
        color = foot = vec4(0.0);
        return;
    }
    uvec4 a = texelFetch(rows, 3 * y), b = texelFetch(rows, 3 * y + 1);
    uvec4 c = texelFetch(rows, 3 * y + 2);
    Row row = Row(int(a.x), int(a.w), int(b.x), int(b.y), int(b.z), int(b.w));
    Edge left = Edge(int(here.x), here.yz, texelFetch(edges, k).xy);
    Edge right = Edge(int(behind.x), behind.yz, texelFetch(edges, k + 1).xy);
    uvec2 covered = minus(right.covered, left.covered);
    int name = 0;
    if (row.n_categories > 1) {
        if (count == 1 || covered == uvec2(0u)) name = name_at(row, first);
        else if (count <= row.bucket)
            name = dominant_of_spans(row, left, right, first);
        else name = dominant_of_sums(row, left, right);
    }
    float busy = ratio(covered, minus(right.tick, left.tick));
    float alpha = floor_opacity + (1.0 - floor_opacity) * busy;
    float opacity = roundEven(alpha * 255.0 * uintBitsToFloat(c.y));
    uvec2 pair = texelFetch(colors, int(c.x) + name).xy;
    color = vec4(channels(pair.x).rgb, opacity / 255.0);
    foot = channels(pair.y);
}
