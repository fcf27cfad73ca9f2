/* Replays recorded training batches with kernel.c alone, on a machine with no Python, no NumPy and no C library.
 *
 * Reads a recording from standard input (tests/kernel_recording.py writes it) and writes what must be the same bits
 * everywhere: the parameters and Adam's two memories after the last step, then 64 sampled answers and their
 * log-probabilities. Ends with the kernel's status, or with 125 if the recording does not fit or breaks off.
 */

enum { READ = 63, WRITE = 64, EXIT = 93, BROKEN = 125 };

static long call_system(long number, long first, long second, long third) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = first;
  register long x1 __asm__("x1") = second, x2 __asm__("x2") = third;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
  return x0;
}

static _Noreturn void leave(int status) {
  for (;;) call_system(EXIT, status, 0, 0);
}

/* The whole memory, handed out from the start; what was never given away is zero. */
static char memory[48 << 20] __attribute__((aligned(64)));
static long used;

static void *room(long bytes) {
  if (bytes < 0 || bytes > (long)sizeof memory - used) leave(BROKEN);
  void *start = memory + used;
  used += (bytes + 63) & ~63L;
  return start;
}

static void *next(long bytes) {
  char *start = room(bytes);
  for (long have = 0; have < bytes;) {
    long got = call_system(READ, 0, (long)start + have, bytes - have);
    if (got <= 0) leave(BROKEN);
    have += got;
  }
  return start;
}

static void tell(const void *start, long bytes) {
  for (long told = 0; told < bytes;) {
    long taken = call_system(WRITE, 1, (long)start + told, bytes - told);
    if (taken <= 0) leave(BROKEN);
    told += taken;
  }
}

long raona_step_floats(const int *shape, int B, int T);
int raona_step(const int *shape, int B, int T, float *parameters, const int *tokens, const float *weights, float *mean,
               float *square, const double *settings, double *norm, float *workspace, long floats);
long raona_decode_floats(const int *shape, int B, int P, int length);
int raona_decode(const int *shape, int B, int P, int length, const float *parameters, const int *prompts,
                 const float *uniforms, float temperature, int end, int *tokens, float *logprobs, float *workspace,
                 long floats);

/* As kernel_recording.py packs it. */
typedef struct {
  int shape[6], parameters, steps, B, T, prompts, P, length, end;
  float temperature;
} Header;

_Noreturn void _start(void) {
  const Header *h = next(sizeof *h);
  const long count = h->parameters, word = 4;
  float *parameters = next(word * count);
  const int *tokens = next(word * h->steps * h->B * (h->T + 1));
  const float *weights = next(word * h->steps * h->B * h->T);
  const double *settings = next(6 * (long)sizeof *settings * h->steps);
  const int *prompts = next(word * h->prompts * h->P);
  const float *uniforms = next(word * h->prompts * h->length);

  float *mean = room(word * count), *square = room(word * count);
  double *norm = room(sizeof *norm);
  long floats = raona_step_floats(h->shape, h->B, h->T);
  float *workspace = room(word * floats);
  for (long step = 0; step < h->steps; step++) {
    int status = raona_step(h->shape, h->B, h->T, parameters, tokens + step * h->B * (h->T + 1),
                            weights + step * h->B * h->T, mean, square, settings + 6 * step, norm, workspace, floats);
    if (status) leave(status);
  }

  const long answers = (long)h->prompts * h->length;
  int *answered = room(word * answers);
  float *logprobs = room(word * answers);
  floats = raona_decode_floats(h->shape, h->prompts, h->P, h->length);
  int status = raona_decode(h->shape, h->prompts, h->P, h->length, parameters, prompts, uniforms, h->temperature, h->end,
                            answered, logprobs, room(word * floats), floats);
  if (status) leave(status);

  tell(parameters, word * count);
  tell(mean, word * count);
  tell(square, word * count);
  tell(answered, word * answers);
  tell(logprobs, word * answers);
  leave(0);
}
