#version 330 core
// Fill, border of one pixel inside, rounded corners, and the patterns of
// `Pattern`: 1 hatch, 2 faint hatch, 3 dotted. The QPainter painter draws the same
// patterns from tiles; both count device pixels from the top left corner.
flat in vec4 v_place;
flat in vec4 v_fill;
flat in vec4 v_border;
flat in int v_pattern;
in vec2 v_position;
uniform float device_height;
uniform float scale;
uniform float radius;
uniform ivec3 period;   // of patterns 1, 2 and 3 in device pixels
uniform ivec3 thickness;
uniform float dot_shade;
out vec4 color;

void main() {
    float coverage = 1.0;
    vec2 inside = min(v_position - v_place.xy, v_place.zw - v_position);
    float depth = min(inside.x, inside.y);
    if (radius > 0.0) {
        vec2 extent = (v_place.zw - v_place.xy) / 2.0;
        float r = min(radius, min(extent.x, extent.y));
        vec2 q = abs(v_position - v_place.xy - extent) - extent + r;
        float away = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - r;
        coverage = clamp(0.5 - away * scale, 0.0, 1.0);
        depth = -away;
    }
    color = v_fill;
    if (v_pattern > 0) {
        ivec2 cell = ivec2(floor(vec2(gl_FragCoord.x,
                                      device_height - gl_FragCoord.y)));
        int p = period[v_pattern - 1];
        int t = thickness[v_pattern - 1];
        if (v_pattern == 3) {
            if (cell.x % p < t && cell.y % p < t) color.rgb *= dot_shade;
        } else if ((cell.x + cell.y) % p >= t) {
            color.a = 0.0;
        }
    }
    if (v_border.a > 0.0 && depth < 1.0) color = v_border;
    color.a *= coverage;
    if (color.a == 0.0) discard;
}
