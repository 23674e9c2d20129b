#version 330 core
// Rectangles with nothing but a fill: most of the picture.
flat in vec4 v_fill;
out vec4 color;

void main() {
    color = v_fill;
}
