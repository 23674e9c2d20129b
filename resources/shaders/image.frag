#version 330 core
// Nearest texel, fetched by number: no filter can blur a column into another.
flat in int v_row;
in float v_across;
uniform sampler2D texels;
uniform int columns;
out vec4 color;

void main() {
    int column = clamp(int(floor(v_across * float(columns))), 0, columns - 1);
    color = texelFetch(texels, ivec2(column, v_row), 0);
    if (color.a == 0.0) discard;
}
