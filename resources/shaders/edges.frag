#version 330 core
// One fragment per row and column edge: how many spans begin before the edge, and how
// much time they cover before it. The same whole numbers as `Row.covered_before`.
#include "ticks.glsl"
#include "held_row.glsl"
uniform usamplerBuffer edges;       // int64
out uvec4 found;                    // count; covered, low and high; 1: a span goes on

void main() {
    uvec4 row = texelFetch(rows, 3 * int(gl_FragCoord.y));
    uvec2 edge = texelFetch(edges, int(gl_FragCoord.x)).xy;
    int offset = int(row.x), low = int(row.y), high = int(row.z);
    // 2^31 spans need 31 steps; a bound that no bad data can break.
    for (int step = 0; step < 32 && low < high; ++step) {
        int middle = low + (high - low) / 2;
        if (less(start_at(offset + middle), edge)) low = middle + 1;
        else high = middle;
    }
    uvec2 covered = covered_by(offset, low);
    uint goes_on = 0u;
    if (low > 0) {
        uvec2 end = end_at(offset + low - 1);
        if (less(edge, end)) {
            covered = minus(covered, minus(end, edge));
            goes_on = 1u;
        }
    }
    found = uvec4(uint(low), covered, goes_on);
}
