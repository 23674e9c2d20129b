#version 330 core
// One rectangle per instance; positions are device-independent pixels, y down.
layout(location = 0) in vec4 place;   // x0, y0, x1, y1
layout(location = 1) in uvec3 look;   // fill and border 0xAARRGGBB, pattern
uniform vec2 size;
flat out vec4 v_place;
flat out vec4 v_fill;
flat out vec4 v_border;
flat out int v_pattern;
out vec2 v_position;

vec4 unpack(uint argb) {
    return vec4((argb >> 16) & 255u, (argb >> 8) & 255u, argb & 255u, argb >> 24)
        / 255.0;
}

void main() {
    vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    v_position = mix(place.xy, place.zw, corner);
    v_place = place;
    v_fill = unpack(look.x);
    v_border = unpack(look.y);
    v_pattern = int(look.z);
    gl_Position = vec4(v_position.x / size.x * 2.0 - 1.0,
                       1.0 - v_position.y / size.y * 2.0, 0.0, 1.0);
}
