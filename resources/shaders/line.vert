#version 330 core
// One line per instance, drawn as a thin quad.
layout(location = 0) in vec4 place;   // x0, y0, x1, y1
layout(location = 1) in uint look;    // 0xAARRGGBB
uniform vec2 size;
uniform float width;
flat out uint v_look;
out float v_along;

void main() {
    vec2 way = place.zw - place.xy;
    float length_px = length(way);
    vec2 direction = length_px > 0.0 ? way / length_px : vec2(1.0, 0.0);
    vec2 normal = vec2(-direction.y, direction.x) * width / 2.0;
    float along = float(gl_VertexID >> 1);
    vec2 position = place.xy + way * along
        + normal * (float(gl_VertexID & 1) * 2.0 - 1.0);
    v_along = along * length_px;
    v_look = look;
    gl_Position = vec4(position.x / size.x * 2.0 - 1.0,
                       1.0 - position.y / size.y * 2.0, 0.0, 1.0);
}
