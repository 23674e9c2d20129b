#version 330 core
flat in uint v_look;
in float v_along;
uniform float dash;   // length of dashes and gaps; 0 draws through
out vec4 color;

void main() {
    if (dash > 0.0 && mod(v_along, 2.0 * dash) >= dash) discard;
    color = vec4((v_look >> 16) & 255u, (v_look >> 8) & 255u, v_look & 255u,
                 v_look >> 24) / 255.0;
}
