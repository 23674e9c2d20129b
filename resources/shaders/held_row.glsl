// A row of spans in texture buffers, as `ggscope.render.gl_store` lays it out.

uniform usamplerBuffer starts;      // int64, sorted
uniform usamplerBuffer ends;        // int64
uniform usamplerBuffer prefix;      // int64, time covered before every 16th span
uniform usamplerBuffer rows;        // three texels per row, see RowTable in gl_search

uvec2 start_at(int i) { return texelFetch(starts, i).xy; }

uvec2 end_at(int i) { return texelFetch(ends, i).xy; }

// Time covered by the first n spans of the row at `offset`, a multiple of 16.
uvec2 covered_by(int offset, int n) {
    int i = offset + (n & ~15);
    uvec2 sum = texelFetch(prefix, i >> 4).xy;
    for (; i < offset + n; ++i) sum = plus(sum, minus(end_at(i), start_at(i)));
    return sum;
}
