/* How fast this engine multiplies and adds four lanes at a time: chains x = x·a + b held in registers, nothing else.
 *
 * Each chain waits for its own last step, so several run side by side; how many are needed to keep the processor busy
 * depends on it, and too many spill. The measurement takes the best count. No fused multiply-add: plain WASM SIMD has
 * none, and the kernel must not use one.
 */

typedef float v4 __attribute__((vector_size(16)));
#define PUBLIC __attribute__((visibility("default")))

#define CHAINS(count)                                                                       \
  PUBLIC float peak_##count(long rounds, float a, float b) {                                \
    v4 factor = {a, a, a, a}, term = {b, b, b, b}, x[count];                                \
    for (int i = 0; i < count; i++) x[i] = term * (float)i;                                 \
    for (long round = 0; round < rounds; round++) {                                         \
      _Pragma("unroll") for (int again = 0; again < 4; again++) {                           \
        _Pragma("unroll") for (int i = 0; i < count; i++) x[i] = x[i] * factor + term;      \
      }                                                                                     \
    }                                                                                       \
    v4 sum = x[0];                                                                          \
    for (int i = 1; i < count; i++) sum += x[i];                                            \
    return sum[0] + sum[1] + sum[2] + sum[3];                                               \
  }

CHAINS(4)
CHAINS(6)
CHAINS(8)
CHAINS(10)
CHAINS(12)
CHAINS(14)
