/* The kernel's matrix products alone: those of one block (two sequences) of a supervised step at the course's sizes, in
 * the order in which layer_forward, layer_backward and the head call them. The small ones inside attention, which are
 * woven into its softmax, are left out.
 */

#include "../../minigpt/kernel/kernel.c"

enum { W = 16, WIDE = 64, ROWS = 32, FOLLOWED = 20, LARGEST = ROWS * 3 * WIDE };

static float input[LARGEST], matrix[LARGEST], bias[3 * WIDE], output[LARGEST], slope[LARGEST], gradient[LARGEST];

/* One layer: `followed` of ROWS rows go on after keys and values. Returns the multiplications and additions. */
static double layer(long followed) {
  affine(followed, W, W, input, W, matrix, W * PANEL, bias, output, W);
  affine(ROWS, 2 * W, W, input, W, matrix, W * PANEL, bias, output, 2 * W);
  affine_added(followed, W, W, input, W, matrix, W * PANEL, bias, output, W);
  affine(followed, WIDE, W, input, W, matrix, W * PANEL, bias, output, WIDE);
  affine_added(followed, W, WIDE, input, WIDE, matrix, WIDE * PANEL, bias, output, W);

  affine_times(followed, WIDE, W, input, W, matrix, W * PANEL, slope, output, WIDE);
  outer_added(WIDE, W, followed, input, WIDE, output, W, gradient, W);
  affine(followed, W, WIDE, input, WIDE, matrix, WIDE * PANEL, 0, output, W);
  outer_added(W, WIDE, followed, input, W, output, WIDE, gradient, WIDE);
  affine(followed, W, W, input, W, matrix, W * PANEL, 0, output, W);
  outer_added(W, W, followed, input, W, output, W, gradient, W);
  affine(ROWS, W, 2 * W, input, 2 * W, matrix, 2 * W * PANEL, 0, output, W);
  outer_added(W, 2 * W, ROWS, input, W, output, 2 * W, gradient, 3 * W);
  outer_added(W, W, followed, input, W, output, W, gradient, 3 * W);
  affine_added(followed, W, W, input, W, matrix, W * PANEL, 0, output, W);
  return 2.0 * (followed * (6.0 * W * W + 6.0 * W * WIDE) + ROWS * 3.0 * W * 2 * W);
}

static double head(long followed) {
  affine(followed, W, W, input, W, matrix, W * PANEL, 0, output, W);
  affine_added(followed, W, W, input, W, matrix, W * PANEL, 0, output, W);
  outer_added(W, W, followed, input, W, output, W, gradient, W);
  return 2.0 * followed * 3 * W * W;
}

PUBLIC double products(long rounds) {
  double operations = 0;
  for (int i = 0; i < LARGEST; i++) {
    input[i] = (i % 7) * 0.125f - 0.375f, matrix[i] = (i % 5) * 0.0625f - 0.125f, slope[i] = (i % 3) * 0.5f;
    output[i] = gradient[i] = 0.0f;
  }
  for (long round = 0; round < rounds; round++) operations += layer(ROWS) + layer(FOLLOWED) + head(FOLLOWED);
  return operations;
}
