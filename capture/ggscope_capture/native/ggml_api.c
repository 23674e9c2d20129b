// Whether ggml's tensors look here as they do in the program: asked with real tensors.

#include "tracer.h"

#include <stdio.h>
#include <string.h>

struct ggml_api ggml;

static const char *mismatch(void)
{
    if (!ggml.init || !ggml.free || !ggml.new_tensor_2d || !ggml.add || !ggml.view_1d ||
        !ggml.set_name || !ggml.get_name || !ggml.get_data || !ggml.op_name ||
        !ggml.graph_n_nodes || !ggml.graph_node || !ggml.nbytes)
        return "functions of its public interface are missing";
    static char memory[1 << 16] __attribute__((aligned(64)));
    struct ggml_init_params params = {sizeof memory, memory, false};
    void *context = ggml.init(params);
    if (context == NULL)
        return "no tensors can be made";
    struct ggml_tensor *a = ggml.new_tensor_2d(context, 0, 7, 5);
    struct ggml_tensor *b = ggml.new_tensor_2d(context, 0, 7, 5);
    struct ggml_tensor *sum = ggml.add(context, a, b);
    struct ggml_tensor *view = ggml.view_1d(context, a, 3, 8);
    ggml.set_name(a, "ggscope probe");
    const char *why = NULL;
    if (a->ne[0] != 7 || a->ne[1] != 5 || a->ne[2] != 1 || a->nb[1] != 28)
        why = "the shape lies elsewhere";
    else if (ggml.get_name(a) != a->name || strcmp(a->name, "ggscope probe") != 0)
        why = "the name lies elsewhere";
    else if (ggml.get_data(a) != a->data)
        why = "the data lie elsewhere";
    else if (sum->src[0] != a || sum->src[1] != b || sum->src[2] != NULL)
        why = "the sources lie elsewhere";
    else if (strcmp(ggml.op_name(sum->op), "ADD") != 0)
        why = "the op lies elsewhere";
    else if (view->view_src != a || view->view_offs != 8)
        why = "the view lies elsewhere";
    else if (a->buffer != NULL)
        why = "the buffer lies elsewhere";
    if (why == NULL && ggml.set_input) {
        ggml.set_input(b);
        if ((b->flags & 1) == 0)
            why = "the flags lie elsewhere";
    }
    ggml.free(context);
    return why;
}

// With the lock held.
enum layout ggml_layout(void)
{
    static enum layout layout = LAYOUT_UNTRIED;
    if (layout == LAYOUT_UNTRIED) {
        const char *why = mismatch();
        layout = why ? LAYOUT_REFUSED : LAYOUT_KNOWN;
        if (why != NULL) {
            char text[256];
            const char *version = ggml.version ? ggml.version() : "that gives no version";
            snprintf(text, sizeof text,
                     "ggml %s is not understood: %s. Its ops are not recorded.", version,
                     why);
            note(text, WITH_PROCESS);
        }
    }
    return layout;
}
