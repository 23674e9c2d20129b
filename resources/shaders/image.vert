#version 330 core
// One row of the picture per instance.
layout(location = 0) in vec3 extent;   // y0, y1, row of the texels
uniform vec2 size;
uniform vec2 span;                     // x0, x1
flat out int v_row;
out float v_across;

void main() {
    vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    vec2 position = vec2(mix(span.x, span.y, corner.x),
                         mix(extent.x, extent.y, corner.y));
    v_across = corner.x;
    v_row = int(extent.z);
    gl_Position = vec4(position.x / size.x * 2.0 - 1.0,
                       1.0 - position.y / size.y * 2.0, 0.0, 1.0);
}
