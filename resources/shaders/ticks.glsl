// Whole numbers of 64 bits as two words, x the low and y the high one, in two's
// complement: OpenGL 3.3 has no longer ones. Texture buffers of int64 read like this
// on every little-endian machine.

uvec2 plus(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + uint(low < a.x));
}

uvec2 minus(uvec2 a, uvec2 b) {
    return uvec2(a.x - b.x, a.y - b.y - uint(a.x < b.x));
}

bool less(uvec2 a, uvec2 b) {
    return a.y == b.y ? a.x < b.x : int(a.y) < int(b.y);
}

uvec2 least(uvec2 a, uvec2 b) { return less(a, b) ? a : b; }

uvec2 greatest(uvec2 a, uvec2 b) { return less(a, b) ? b : a; }

uvec2 distance_of(uvec2 a, uvec2 b) { return less(a, b) ? minus(b, a) : minus(a, b); }

// part / whole of two numbers that are not negative; exactly 1 where they are equal.
float ratio(uvec2 part, uvec2 whole) {
    if (part == whole) return 1.0;
    vec2 low = vec2(part.x, whole.x), high = vec2(part.y, whole.y);
    vec2 both = high * 4294967296.0 + low;
    return both.x / both.y;
}
