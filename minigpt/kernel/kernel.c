/* The compiled kernel: the tiny GPT forward and backward, Adam, decoding, and the primitives of small networks.
 *
 * One source for every machine, and the same bits on all of them. That rests on four rules:
 *   1. vectors have four lanes, written out (clang's vector extension), so that the order of every reduction stands here
 *      and not in the instruction set;
 *   2. no libm and no libc: exp and log are polynomials below, only + - * / and sqrt are the machine's, and those are
 *      exact to the last bit everywhere;
 *   3. compiled with -ffp-contract=off and without -ffast-math: no fused multiply-add, no reordering;
 *   4. what happens to one sequence never depends on its neighbours in the batch.
 *
 * The readable version of all this is minigpt/reference.py; read it first. Names: B sequences, T positions, D width,
 * H heads, V vocabulary, F hidden. A size with p after it (Dp) is padded with zeros to a multiple of eight (a head's
 * size S: of four), so that the vector code has no tails. Memory belongs to the caller, who passes workspaces in.
 *
 * Public functions return 0, or a status that minigpt/kernel/__init__.py turns into an error by name.
 */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef unsigned int u4 __attribute__((vector_size(16)));
typedef double d2 __attribute__((vector_size(16)));
typedef float f2 __attribute__((vector_size(8)));

#define INLINE static inline __attribute__((always_inline))
#define SEPARATE static __attribute__((noinline))
#ifdef _WIN32
#define PUBLIC __attribute__((dllexport))
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

enum { LANES = 4, PANEL = 8, TILE = 4 }; /* TILE: also how many vectors, or rows, are worked on side by side */

/* What can be found wrong; the layer, or the row, is added in units of STATUS_PLACE. */
enum {
  FINE,
  SMALL_WORKSPACE,
  BAD_TOKEN,
  BAD_NORM,      /* the input of a LayerNorm is not finite, or too large for its variance to be */
  BAD_SCORES,    /* attention scores */
  BAD_LOGITS,
  BAD_GRADIENT,
  STATUS_PLACE = 16
};

/* ------------------------------------------------------------------------------------------------ four lanes */

INLINE v4 splat(float x) { return (v4){x, x, x, x}; }
INLINE v4 load(const float *p) { return *(const v4_anywhere *)p; }
INLINE void store(float *p, v4 x) { *(v4_anywhere *)p = x; }
INLINE v4 select(u4 mask, v4 yes, v4 no) { return (v4)((mask & (u4)yes) | (~mask & (u4)no)); }
INLINE v4 smaller(v4 a, v4 b) { return select((u4)(b < a), b, a); }
INLINE v4 larger(v4 a, v4 b) { return select((u4)(b > a), b, a); }
INLINE v4 root(v4 x) { return __builtin_elementwise_sqrt(x); }

/* (lane 0 + lane 1) + (lane 2 + lane 3), in every lane */
INLINE v4 across_sum(v4 x) {
  x = x + __builtin_shufflevector(x, x, 1, 0, 3, 2);
  return x + __builtin_shufflevector(x, x, 2, 3, 0, 1);
}

INLINE v4 across_largest(v4 x) {
  x = larger(x, __builtin_shufflevector(x, x, 1, 0, 3, 2));
  return larger(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
}

/* Lanes 0 … count-1 of a row's last vector; the others get `fill`. */
INLINE v4 load_part(const float *p, int count, float fill) {
  v4 x = splat(fill);
  for (int lane = 0; lane < count; lane++) x[lane] = p[lane];
  return x;
}

INLINE void store_part(float *p, v4 x, int count) {
  for (int lane = 0; lane < count; lane++) p[lane] = x[lane];
}

/* All ones in the lanes whose index is below count (any integer). */
INLINE u4 lanes_below(int count) {
  typedef int s4 __attribute__((vector_size(16)));
  return (u4)((s4){0, 1, 2, 3} < (s4){count, count, count, count});
}

INLINE int any_nan(v4 x) {
  u4 bad = (u4)(x != x);
  return (bad[0] | bad[1] | bad[2] | bad[3]) != 0;
}

/* Says that a value may have changed here. It costs nothing, and keeps the compiler from putting off the sums of several
 * steps, or from computing addresses one by one, for either of which there are not enough registers. */
#if defined(__wasm__)
#define PIN_VECTOR(x) __asm__ volatile("" : "+r"(x))
#elif defined(__x86_64__)
#define PIN_VECTOR(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define PIN_VECTOR(x) __asm__ volatile("" : "+w"(x))
#else
#define PIN_VECTOR(x)
#endif
#define PIN_POINTER(x) __asm__ volatile("" : "+r"(x))

/* ------------------------------------------------------------------------------------------- exp, log, sigmoid */

#define LOWEST_EXP (-87.3f)      /* below, exp is given as 0: nothing here is ever subnormal */
#define HIGHEST_EXP 88.72283f    /* above, it is infinite */
#define INFINITE __builtin_inff()

#define ALL(x) {x, x, x, x}

/* The constants of the inner loops. They are read from memory, behind a pinned pointer, because a WebAssembly engine
 * puts a literal vector together anew, in three instructions, wherever one is used. */
typedef struct {
  v4 one, lowest, per_ln2, rounder, ln2_high, ln2_low, q6, q5, q4, q3, q2;
  v4 bound, bound_below, gelu_scale, gelu_cubic, slope_scale, slope_square;
} Constants;

static const Constants CONSTANTS = {
    .one = ALL(1.0f),
    .lowest = ALL(LOWEST_EXP),
    .per_ln2 = ALL(1.44269504f),
    .rounder = ALL(12582912.0f), /* 1.5 · 2^23: adding it rounds to a whole number and leaves that in the low bits */
    .ln2_high = ALL(0.693359375f),
    .ln2_low = ALL(-2.12194440e-4f),
    /* e^r = 1 + r + r²(q2 + q3·r + …) within 3e-9 (relative) for |r| <= ln 2 / 2: Remez, fitted for this range */
    .q6 = ALL(1.3814540579915047e-3f),
    .q5 = ALL(8.36874544620514e-3f),
    .q4 = ALL(4.166838899254799e-2f),
    .q3 = ALL(1.666652113199234e-1f),
    .q2 = ALL(4.999999403953552e-1f),
    .bound = ALL(80.0f),
    .bound_below = ALL(-80.0f),
    .gelu_scale = ALL(-1.5957691216057308f),  /* -2√(2/π) */
    .gelu_cubic = ALL(0.044715f),
    .slope_scale = ALL(1.5957691216057308f),
    .slope_square = ALL(0.21406859265f),      /* 2√(2/π) · 3 · 0.044715 */
};

INLINE const Constants *constants(void) {
  const Constants *k = &CONSTANTS;
  PIN_POINTER(k);
  return k;
}

/* The inner loops below work on N vectors at a time, step by step side by side: one alone would mostly wait for its own
 * last step. The order is pinned, or the compiler would work them off one after the other again. */
#define SIDE_BY_SIDE(name, expression)                  \
  for (int j = 0; j < N; j++) {                         \
    name[j] = expression;                               \
    PIN_VECTOR(name[j]);                                \
  }

/* x = exp(x) for -87.3 <= x <= 88.7: 2^n · e^r with n = round(x/ln 2). */
INLINE void exp_inside(int N, v4 x[TILE], const Constants *k) {
  v4 n[TILE], q[TILE];
  u4 exponent[TILE];
  SIDE_BY_SIDE(n, x[j] * k->per_ln2 + k->rounder)
  SIDE_BY_SIDE(exponent, (u4)n[j] << 23)
  SIDE_BY_SIDE(n, n[j] - k->rounder)
  SIDE_BY_SIDE(x, x[j] - n[j] * k->ln2_high)
  SIDE_BY_SIDE(x, x[j] - n[j] * k->ln2_low)
  SIDE_BY_SIDE(q, k->q6 * x[j] + k->q5)
  SIDE_BY_SIDE(q, q[j] * x[j] + k->q4)
  SIDE_BY_SIDE(q, q[j] * x[j] + k->q3)
  SIDE_BY_SIDE(q, q[j] * x[j] + k->q2)
  SIDE_BY_SIDE(q, q[j] * (x[j] * x[j]))
  SIDE_BY_SIDE(x, (q[j] + x[j]) + k->one)
  SIDE_BY_SIDE(x, (v4)((u4)x[j] + exponent[j]))
}

/* The same for x <= 0, as softmax needs it; 0 below -87.3. */
INLINE void exp_negative(int N, v4 x[TILE], const Constants *k) {
  u4 shown[TILE];
  for (int j = 0; j < N; j++) shown[j] = (u4)(x[j] > k->lowest);
  for (int j = 0; j < N; j++) x[j] = larger(x[j], k->lowest);
  exp_inside(N, x, k);
  for (int j = 0; j < N; j++) x[j] = (v4)((u4)x[j] & shown[j]);
}

INLINE v4 exp_negative_alone(v4 x, const Constants *k) {
  exp_negative(1, &x, k);
  return x;
}

INLINE v4 exp_inside_alone(v4 x, const Constants *k) {
  exp_inside(1, &x, k);
  return x;
}

INLINE v4 exp_any(v4 x, const Constants *k) {
  v4 y = exp_inside_alone(smaller(larger(x, splat(LOWEST_EXP)), splat(HIGHEST_EXP)), k);
  y = select((u4)(x > splat(LOWEST_EXP)), y, splat(0.0f));
  y = select((u4)(x > splat(HIGHEST_EXP)), splat(INFINITE), y);
  return select((u4)(x == x), y, x);
}

/* log: x = 2^n · m with sqrt(1/2) <= m < sqrt(2); log m = 2 atanh(s), s = (m-1)/(m+1), the polynomial within 2e-11. */
INLINE v4 log_any(v4 x) {
  u4 tiny = (u4)(x < splat(1.17549435e-38f));
  v4 scaled = select(tiny, x * splat(8388608.0f), x);
  u4 bits = (u4)scaled - 0x3f3504f3u; /* the bits of sqrt(1/2) */
  u4 exponent = (u4)((__attribute__((vector_size(16))) int)bits >> 23);
  v4 m = (v4)((bits & 0x007fffffu) + 0x3f3504f3u);
  v4 n = __builtin_convertvector((__attribute__((vector_size(16))) int)exponent, v4);
  n = n - select(tiny, splat(23.0f), splat(0.0f));
  v4 f = m - splat(1.0f);
  v4 s = f / (splat(2.0f) + f);
  v4 z = s * s;
  v4 q = splat(2.3618724942207336e-1f);
  q = q * z + splat(2.8535985946655273e-1f);
  q = q * z + splat(4.000034034252167e-1f);
  q = q * z + splat(6.666666865348816e-1f);
  v4 half_square = splat(0.5f) * f * f;
  v4 rest = s * (half_square + z * q) + n * splat(9.0580006e-6f);
  v4 y = n * splat(6.9313812256e-1f) - ((half_square - rest) - f);
  y = select((u4)(x == splat(INFINITE)), x, y);
  y = select((u4)(x == splat(0.0f)), splat(-INFINITE), y);
  return select((u4)(x >= splat(0.0f)), y, splat(__builtin_nanf("")));
}

/* 1/(1 + exp(-x)); the bounds keep every intermediate normal, and change nothing that float32 could show near 1. */
INLINE v4 sigmoid_any(v4 x, const Constants *k) {
  v4 y = k->one / (k->one + exp_inside_alone(smaller(larger(-x, k->bound_below), k->bound), k));
  return select((u4)(x == x), y, x);
}

/* The tanh form of GELU, ½x(1 + tanh u) = x·sigmoid(2u) with u = √(2/π)(x + 0.044715x³), and its slope. */
INLINE void gelu_vectors(int N, float *active, float *slope, const Constants *k) {
  v4 x[TILE], z[TILE], square[TILE];
  SIDE_BY_SIDE(x, load(active + j * LANES))
  SIDE_BY_SIDE(z, k->one + (x[j] * x[j]) * k->gelu_cubic)
  SIDE_BY_SIDE(z, (x[j] * k->gelu_scale) * z[j])
  SIDE_BY_SIDE(z, smaller(larger(z[j], k->bound_below), k->bound))
  exp_inside(N, z, k);
  SIDE_BY_SIDE(z, k->one / (k->one + z[j]))
  SIDE_BY_SIDE(x, load(active + j * LANES))
  SIDE_BY_SIDE(square, k->slope_scale + (x[j] * x[j]) * k->slope_square)
  SIDE_BY_SIDE(x, x[j] * z[j])
  for (int j = 0; j < N; j++) store(active + j * LANES, x[j]);
  SIDE_BY_SIDE(x, (x[j] * (k->one - z[j])) * square[j])
  for (int j = 0; j < N; j++) store(slope + j * LANES, z[j] + x[j]);
}

/* count, a multiple of eight, numbers in `active` are replaced by their GELU. */
SEPARATE void gelu(long count, float *active, float *slope) {
  const Constants *k = constants();
  long i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES) gelu_vectors(4, active + i, slope + i, k);
  for (; i < count; i += LANES) gelu_vectors(1, active + i, slope + i, k);
}

/* ------------------------------------------------------------------------------------------------- products
 *
 * Every product is made of tiles of R rows times C vectors held in registers while k runs over what is summed, always
 * upwards, one rounding for the product and one for the sum. So each element is the same whatever tile it falls in.
 */

#define ONE_STEP(left_at, right_at)                                       \
  {                                                                       \
    v4 right[2];                                                          \
    for (int c = 0; c < C; c++) right[c] = load(right_at + LANES * c);    \
    for (int r = 0; r < R; r++) {                                         \
      v4 left = splat(left_at);                                           \
      for (int c = 0; c < C; c++) {                                       \
        sums[r][c] += left * right[c];                                    \
        PIN_VECTOR(sums[r][c]);                                           \
      }                                                                   \
    }                                                                     \
  }

/* sums (R, C vectors) += a (R, K; rows lda apart) · b (K, C vectors; rows ldb apart) */
INLINE void multiply_add(int R, int C, long K, const float *a, long lda, const float *b, long ldb, v4 sums[TILE][2]) {
  const float *row[TILE];
  for (int r = 0; r < R; r++) row[r] = a + r * lda;
  for (long k = K / 4; k > 0; k--) {
    for (int r = 0; r < R; r++) PIN_POINTER(row[r]);
    PIN_POINTER(b);
    ONE_STEP(row[r][0], b)
    ONE_STEP(row[r][1], b + ldb)
    ONE_STEP(row[r][2], b + 2 * ldb)
    ONE_STEP(row[r][3], b + 3 * ldb)
    for (int r = 0; r < R; r++) row[r] += 4;
    b += 4 * ldb;
  }
  for (long k = K % 4; k > 0; k--) {
    ONE_STEP(row[r][0], b)
    for (int r = 0; r < R; r++) row[r] += 1;
    b += ldb;
  }
}

/* sums (R, C vectors) += aᵀ · b with a (K, R; rows lda apart): the same from columns of a */
INLINE void multiply_add_columns(int R, int C, long K, const float *a, long lda, const float *b, long ldb,
                                 v4 sums[TILE][2]) {
  for (; K >= 2; K -= 2) {
    PIN_POINTER(a);
    PIN_POINTER(b);
    ONE_STEP(a[r], b)
    a += lda, b += ldb;
    PIN_POINTER(a);
    PIN_POINTER(b);
    ONE_STEP(a[r], b)
    a += lda, b += ldb;
  }
  if (K) ONE_STEP(a[r], b)
}

#define FOR_TILE for (int r = 0; r < R; r++) for (int c = 0; c < C; c++)
/* Runs BODY with R = TILE as often as it fits into `rows`, then once with what is left, R a constant each time. */
#define IN_TILES(row, rows, BODY)                                              \
  {                                                                            \
    long row = 0;                                                              \
    for (; row + TILE <= (rows); row += TILE) { enum { R = TILE }; BODY }      \
    switch ((rows) - row) {                                                    \
      case 1: { enum { R = 1 }; BODY } break;                                  \
      case 2: { enum { R = 2 }; BODY } break;                                  \
      case 3: { enum { R = 3 }; BODY } break;                                  \
    }                                                                          \
  }

enum { SET, ADD, TIMES };

INLINE void put_part(float *y, v4 first, v4 second, long count) {
  float part[PANEL];
  store(part, first);
  store(part + LANES, second);
  for (long i = 0; i < count; i++) y[i] = part[i];
}

/* y (M, N) = bias + a (M, K) · w, w packed in panels of eight columns, `panel` floats from one to the next (K·8 for a
 * whole matrix). mode ADD: y += …; TIMES: y = (…)·other, elementwise. N need not be a multiple of eight for SET. */
INLINE void affine_tiles(int mode, long M, long N, long K, const float *a, long lda, const float *w, long panel,
                         const float *bias, const float *other, float *y, long ldy) {
  enum { C = 2 };
  for (long column = 0; column < N; column += PANEL) {
    v4 start[2] = {splat(0.0f), splat(0.0f)};
    if (bias) start[0] = load(bias + column), start[1] = load(bias + column + LANES);
    IN_TILES(row, M, {
      v4 sums[TILE][2];
      FOR_TILE sums[r][c] = start[c];
      multiply_add(R, C, K, a + row * lda, lda, w, PANEL, sums);
      float *target = y + row * ldy + column;
      if (mode == SET && N - column < PANEL) {
        for (int r = 0; r < R; r++) put_part(target + r * ldy, sums[r][0], sums[r][1], N - column);
      } else {
        FOR_TILE {
          float *place = target + r * ldy + LANES * c;
          v4 sum = sums[r][c];
          if (mode == ADD) sum = load(place) + sum;
          if (mode == TIMES) sum = sum * load(other + (place - y));
          store(place, sum);
        }
      }
    })
    w += panel;
  }
}

SEPARATE void affine(long M, long N, long K, const float *a, long lda, const float *w, long panel, const float *bias,
                     float *y, long ldy) {
  affine_tiles(SET, M, N, K, a, lda, w, panel, bias, 0, y, ldy);
}
SEPARATE void affine_added(long M, long N, long K, const float *a, long lda, const float *w, long panel,
                           const float *bias, float *y, long ldy) {
  affine_tiles(ADD, M, N, K, a, lda, w, panel, bias, 0, y, ldy);
}
SEPARATE void affine_times(long M, long N, long K, const float *a, long lda, const float *w, long panel,
                           const float *other, float *y, long ldy) {
  affine_tiles(TIMES, M, N, K, a, lda, w, panel, 0, other, y, ldy);
}

/* dw (I, O) += xᵀ (I, rows) · dy (rows, O), row after row; O a multiple of eight. The weight's gradient. */
SEPARATE void outer_added(long I, long O, long rows, const float *x, long ldx, const float *dy, long lddy, float *dw,
                          long lddw) {
  enum { C = 2 };
  for (long column = 0; column < O; column += PANEL) {
    IN_TILES(row, I, {
      v4 sums[TILE][2];
      float *target = dw + row * lddw + column;
      FOR_TILE sums[r][c] = load(target + r * lddw + LANES * c);
      multiply_add_columns(R, C, rows, x + row, ldx, dy + column, lddy, sums);
      FOR_TILE store(target + r * lddw + LANES * c, sums[r][c]);
    })
  }
}

/* sums (N) += Σ over rows of x (rows, N); N a multiple of four. The bias's gradient. */
SEPARATE void rows_added(long rows, long N, const float *x, long ldx, float *sums) {
  for (long column = 0; column < N; column += LANES) {
    v4 sum = load(sums + column);
    for (long row = 0; row < rows; row++) sum += load(x + row * ldx + column);
    store(sums + column, sum);
  }
}

/* ------------------------------------------------------------------------------------------ moving numbers about */

SEPARATE void fill_zero(float *p, long count) {
  long i = 0;
  for (; i + LANES <= count; i += LANES) store(p + i, splat(0.0f));
  for (; i < count; i++) p[i] = 0.0f;
}

SEPARATE void copy(float *to, const float *from, long count) {
  long i = 0;
  for (; i + LANES <= count; i += LANES) store(to + i, load(from + i));
  for (; i < count; i++) to[i] = from[i];
}

SEPARATE void copy_rows(long rows, long N, const float *from, long ld_from, float *to, long ld_to) {
  for (long row = 0; row < rows; row++) copy(to + row * ld_to, from + row * ld_from, N);
}

/* to (columns, rows …) = from (rows, columns) transposed; columns a multiple of four. Rows are completed with zeros to a
 * multiple of four, for which `to` has room. */
SEPARATE void transpose(long rows, long columns, const float *from, long ld_from, float *to, long ld_to) {
  for (long row = 0; row < rows; row += LANES) {
    for (long column = 0; column < columns; column += LANES) {
      const float *source = from + row * ld_from + column;
      v4 zero = splat(0.0f);
      v4 a = load(source), b = row + 1 < rows ? load(source + ld_from) : zero;
      v4 c = row + 2 < rows ? load(source + 2 * ld_from) : zero, d = row + 3 < rows ? load(source + 3 * ld_from) : zero;
      v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      v4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      float *target = to + column * ld_to + row;
      store(target, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
      store(target + ld_to, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
      store(target + 2 * ld_to, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
      store(target + 3 * ld_to, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
    }
  }
}

/* ------------------------------------------------------------------------------------------------- sizes, layout */

typedef struct {
  int V, C, D, L, H, F, S;
  int Vp, Dp, Fp, Sp, Ap; /* Ap: all heads of one of query, key, value */
} Sizes;

INLINE int up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

INLINE Sizes sizes_of(const int *shape) {
  Sizes s = {.V = shape[0], .C = shape[1], .D = shape[2], .L = shape[3], .H = shape[4], .F = shape[5]};
  s.S = s.D / s.H;
  s.Vp = up(s.V, PANEL), s.Dp = up(s.D, PANEL), s.Fp = up(s.F, PANEL);
  s.Sp = up(s.S, LANES), s.Ap = up(s.H * s.Sp, PANEL);
  return s;
}

/* Cuts a workspace into arrays. With base 0 it only counts. */
typedef struct {
  float *base;
  long used;
} Arena;

INLINE float *take(Arena *arena, long floats) {
  float *p = arena->base ? arena->base + arena->used : 0;
  arena->used += (floats + 15) & ~15L;
  return p;
}

/* The tensors of one layer in padded form. As weights, matrices are in panels, and the transposes (for the backward)
 * follow; as gradients, they are row after row, and there are no transposes. */
typedef struct {
  float *gain1, *shift1, *attention, *attention_bias, *projection, *projection_bias;
  float *gain2, *shift2, *expand, *expand_bias, *contract, *contract_bias;
} Layer;

typedef struct {
  float *attention, *projection, *expand, *contract;
} Transposed;

typedef struct {
  float *token, *position, *gain, *shift, *head;
} Ends;

INLINE Ends cut_ends(Arena *arena, const Sizes *s) {
  Ends e;
  e.token = take(arena, (long)s->V * s->Dp);
  e.position = take(arena, (long)s->C * s->Dp);
  e.gain = take(arena, s->Dp), e.shift = take(arena, s->Dp);
  e.head = take(arena, (long)s->Dp * s->Vp);
  return e;
}

INLINE Layer cut_layer(Arena *arena, const Sizes *s) {
  Layer l;
  l.gain1 = take(arena, s->Dp), l.shift1 = take(arena, s->Dp);
  l.attention = take(arena, 3L * s->Dp * s->Ap), l.attention_bias = take(arena, 3L * s->Ap);
  l.projection = take(arena, (long)s->Ap * s->Dp), l.projection_bias = take(arena, s->Dp);
  l.gain2 = take(arena, s->Dp), l.shift2 = take(arena, s->Dp);
  l.expand = take(arena, (long)s->Dp * s->Fp), l.expand_bias = take(arena, s->Fp);
  l.contract = take(arena, (long)s->Fp * s->Dp), l.contract_bias = take(arena, s->Dp);
  return l;
}

INLINE Transposed cut_transposed(Arena *arena, const Sizes *s) {
  Transposed t;
  t.attention = take(arena, 3L * s->Dp * s->Ap);
  t.projection = take(arena, (long)s->Ap * s->Dp);
  t.expand = take(arena, (long)s->Dp * s->Fp);
  t.contract = take(arena, (long)s->Fp * s->Dp);
  return t;
}

/* A model's weights, or its gradient, in padded form: the two ends, then layer after layer. */
typedef struct {
  float *base;
  long layers_from, layer_floats;
} Model;

INLINE Model cut_model(Arena *arena, const Sizes *s) {
  Arena ends = {0, 0}, layer = {0, 0};
  cut_ends(&ends, s), cut_layer(&layer, s);
  Model m = {.layers_from = ends.used, .layer_floats = layer.used};
  m.base = take(arena, m.layers_from + s->L * m.layer_floats);
  return m;
}
INLINE Ends ends_of(const Model *m, const Sizes *s) {
  Arena arena = {m->base, 0};
  return cut_ends(&arena, s);
}
INLINE Layer layer_of(const Model *m, const Sizes *s, int layer) {
  Arena arena = {m->base, m->layers_from + layer * m->layer_floats};
  return cut_layer(&arena, s);
}
INLINE long model_floats(const Model *m, const Sizes *s) { return m->layers_from + s->L * m->layer_floats; }

/* ---- flat ↔ padded. An axis is `whole` stretches of `part` numbers, each padded to `padded`. */

typedef struct {
  int whole, part, padded, total; /* total: with the padding at the end */
} Axis;

INLINE Axis plain(int n, int padded) { return (Axis){1, n, padded, padded}; }
INLINE int length(Axis a) { return a.whole * a.part; }
INLINE int placed(Axis a, int i) { return i / a.part * a.padded + i % a.part; }

/* direction: pack (flat → panels), unpack (rows → flat). `parts` matrices stand side by side: query, key, value. */
SEPARATE void pack_matrix(Axis in, Axis out, int parts, const float *flat, float *panels) {
  long width = (long)parts * length(out), K = in.total;
  int tight = length(in) == in.total && length(out) == out.total;
  if (!tight) fill_zero(panels, K * parts * out.total);
  for (int i = 0; i < length(in); i++) {
    const float *row = flat + i * width;
    if (tight) {
      float *target = panels + (long)i * PANEL;
      for (long o = 0; o < width; o += PANEL, target += K * PANEL) {
        store(target, load(row + o));
        store(target + LANES, load(row + o + LANES));
      }
      continue;
    }
    for (int part = 0; part < parts; part++) {
      for (int o = 0; o < length(out); o++) {
        long column = (long)part * out.total + placed(out, o);
        panels[column / PANEL * K * PANEL + (long)placed(in, i) * PANEL + column % PANEL] = *row++;
      }
    }
  }
}

SEPARATE void unpack_matrix(Axis in, Axis out, int parts, const float *rows, float *flat) {
  long width = (long)parts * length(out), stride = (long)parts * out.total;
  int tight = length(out) == out.total;
  for (int i = 0; i < length(in); i++) {
    const float *row = rows + placed(in, i) * stride;
    float *target = flat + i * width;
    if (tight) {
      copy(target, row, width);
      continue;
    }
    for (int part = 0; part < parts; part++)
      for (int o = 0; o < length(out); o++) *target++ = row[(long)part * out.total + placed(out, o)];
  }
}

SEPARATE void pack_vector(Axis out, int parts, const float *flat, float *padded) {
  if (length(out) == out.total) {
    copy(padded, flat, (long)parts * out.total);
    return;
  }
  fill_zero(padded, (long)parts * out.total);
  for (int part = 0; part < parts; part++)
    for (int o = 0; o < length(out); o++) padded[part * out.total + placed(out, o)] = *flat++;
}

SEPARATE void pack_rows(long rows, int N, int Np, const float *flat, float *padded) {
  for (long row = 0; row < rows; row++) {
    copy(padded + row * Np, flat + row * N, N);
    for (int i = N; i < Np; i++) padded[row * Np + i] = 0.0f;
  }
}

/* The flat vector has its tensors in the order of minigpt/model.py's layout(). */
SEPARATE void pack_model(const Sizes *s, const float *flat, const Model *m) {
  Axis width = plain(s->D, s->Dp), wide = plain(s->F, s->Fp), heads = {s->H, s->S, s->Sp, s->Ap};
  Ends e = ends_of(m, s);
  pack_rows(s->V, s->D, s->Dp, flat, e.token), flat += (long)s->V * s->D;
  pack_rows(s->C, s->D, s->Dp, flat, e.position), flat += (long)s->C * s->D;
  for (int layer = 0; layer < s->L; layer++) {
    Layer l = layer_of(m, s, layer);
    pack_vector(width, 1, flat, l.gain1), flat += s->D;
    pack_vector(width, 1, flat, l.shift1), flat += s->D;
    pack_matrix(width, heads, 3, flat, l.attention), flat += 3L * s->D * s->D;
    pack_vector(heads, 3, flat, l.attention_bias), flat += 3L * s->D;
    pack_matrix(heads, width, 1, flat, l.projection), flat += (long)s->D * s->D;
    pack_vector(width, 1, flat, l.projection_bias), flat += s->D;
    pack_vector(width, 1, flat, l.gain2), flat += s->D;
    pack_vector(width, 1, flat, l.shift2), flat += s->D;
    pack_matrix(width, wide, 1, flat, l.expand), flat += (long)s->D * s->F;
    pack_vector(wide, 1, flat, l.expand_bias), flat += s->F;
    pack_matrix(wide, width, 1, flat, l.contract), flat += (long)s->F * s->D;
    pack_vector(width, 1, flat, l.contract_bias), flat += s->D;
  }
  pack_vector(width, 1, flat, e.gain), flat += s->D;
  pack_vector(width, 1, flat, e.shift), flat += s->D;
  pack_matrix(width, plain(s->V, s->Vp), 1, flat, e.head);
}

SEPARATE void unpack_model(const Sizes *s, const Model *m, float *flat) {
  Axis width = plain(s->D, s->Dp), wide = plain(s->F, s->Fp), heads = {s->H, s->S, s->Sp, s->Ap}, one = plain(1, 1);
  Ends e = ends_of(m, s);
  unpack_matrix(plain(s->V, s->V), width, 1, e.token, flat), flat += (long)s->V * s->D;
  unpack_matrix(plain(s->C, s->C), width, 1, e.position, flat), flat += (long)s->C * s->D;
  for (int layer = 0; layer < s->L; layer++) {
    Layer l = layer_of(m, s, layer);
    unpack_matrix(one, width, 1, l.gain1, flat), flat += s->D;
    unpack_matrix(one, width, 1, l.shift1, flat), flat += s->D;
    unpack_matrix(width, heads, 3, l.attention, flat), flat += 3L * s->D * s->D;
    unpack_matrix(one, heads, 3, l.attention_bias, flat), flat += 3L * s->D;
    unpack_matrix(heads, width, 1, l.projection, flat), flat += (long)s->D * s->D;
    unpack_matrix(one, width, 1, l.projection_bias, flat), flat += s->D;
    unpack_matrix(one, width, 1, l.gain2, flat), flat += s->D;
    unpack_matrix(one, width, 1, l.shift2, flat), flat += s->D;
    unpack_matrix(width, wide, 1, l.expand, flat), flat += (long)s->D * s->F;
    unpack_matrix(one, wide, 1, l.expand_bias, flat), flat += s->F;
    unpack_matrix(wide, width, 1, l.contract, flat), flat += (long)s->F * s->D;
    unpack_matrix(one, width, 1, l.contract_bias, flat), flat += s->D;
  }
  unpack_matrix(one, width, 1, e.gain, flat), flat += s->D;
  unpack_matrix(one, width, 1, e.shift, flat), flat += s->D;
  unpack_matrix(width, plain(s->V, s->Vp), 1, e.head, flat);
}

/* panels (I, O) → panels (O, I), both multiples of eight */
SEPARATE void transpose_panels(long I, long O, const float *from, float *to) {
  for (long o = 0; o < O; o += PANEL)
    for (long i = 0; i < I; i += PANEL)
      transpose(PANEL, PANEL, from + o * I + i * PANEL, PANEL, to + i * O + o * PANEL, PANEL);
}

/* ------------------------------------------------------------------------------------------------- LayerNorm */

/* Vectors of a row that hold any of its n numbers, and the mask of the last one. */
INLINE v4 keep_lanes(v4 x, int column, int n) { return (v4)((u4)x & lanes_below(n - column)); }

/* R rows of the forward, side by side. */
INLINE v4 norm_rows(const Sizes *s, int R, const float *x, const float *gain, const float *shift, float *normal,
                    float *scale, float *y) {
  int D = s->D, Dp = s->Dp;
  v4 share = splat(1.0f) / splat((float)D), trouble = splat(0.0f), mean[TILE], squares[TILE];
  for (int r = 0; r < R; r++) mean[r] = splat(0.0f), squares[r] = splat(0.0f);
  for (int i = 0; i < Dp; i += LANES)
    for (int r = 0; r < R; r++) mean[r] += load(x + r * Dp + i);
  for (int r = 0; r < R; r++) mean[r] = across_sum(mean[r]) * share;
  for (int i = 0; i < Dp; i += LANES) {
    for (int r = 0; r < R; r++) {
      v4 centred = load(x + r * Dp + i) - mean[r];
      if (D != Dp) centred = keep_lanes(centred, i, D);
      store(normal + r * Dp + i, centred);
      squares[r] += centred * centred;
    }
  }
  for (int r = 0; r < R; r++) squares[r] = across_sum(squares[r]) * share;
  for (int r = 0; r < R; r++) trouble += squares[r] * splat(0.0f);
  for (int r = 0; r < R; r++) squares[r] = splat(1.0f) / root(squares[r] + splat(1e-5f));
  for (int r = 0; r < R; r++) scale[r] = squares[r][0];
  for (int i = 0; i < Dp; i += LANES) {
    v4 g = load(gain + i), h = load(shift + i);
    for (int r = 0; r < R; r++) {
      v4 n = load(normal + r * Dp + i) * squares[r];
      store(normal + r * Dp + i, n);
      store(y + r * Dp + i, n * g + h);
    }
  }
  return trouble;
}

/* y = normal·gain + shift with normal = (x - mean)/√(variance + 1e-5), row by row. Returns a vector with a NaN in it if
 * some variance was not finite. */
SEPARATE v4 norm_forward(const Sizes *s, long rows, const float *x, const float *gain, const float *shift,
                         float *normal, float *scale, float *y) {
  long Dp = s->Dp;
  v4 trouble = splat(0.0f);
  IN_TILES(row, rows, {
    trouble += norm_rows(s, R, x + row * Dp, gain, shift, normal + row * Dp, scale + row, y + row * Dp);
  })
  return trouble;
}

/* dx += the gradient through the norm; dgain and dshift too. */
INLINE void norm_rows_backward(const Sizes *s, int R, const float *dy, const float *normal, const float *scale,
                               const float *gain, float *dgain, float *dshift, float *dx) {
  int D = s->D, Dp = s->Dp;
  v4 share = splat(1.0f) / splat((float)D), mean[TILE], slope[TILE];
  for (int r = 0; r < R; r++) mean[r] = splat(0.0f), slope[r] = splat(0.0f);
  for (int i = 0; i < Dp; i += LANES) {
    v4 g = load(gain + i), dg = load(dgain + i), dh = load(dshift + i);
    for (int r = 0; r < R; r++) {
      v4 d = load(dy + r * Dp + i), n = load(normal + r * Dp + i), dn = d * g;
      mean[r] += dn;
      slope[r] += dn * n;
      dg += d * n;
      dh += d;
    }
    store(dgain + i, dg);
    store(dshift + i, dh);
  }
  for (int r = 0; r < R; r++) mean[r] = across_sum(mean[r]) * share, slope[r] = across_sum(slope[r]) * share;
  for (int i = 0; i < Dp; i += LANES) {
    v4 g = load(gain + i);
    for (int r = 0; r < R; r++) {
      v4 through = (load(dy + r * Dp + i) * g - mean[r] - load(normal + r * Dp + i) * slope[r]) * splat(scale[r]);
      if (D != Dp) through = keep_lanes(through, i, D);
      store(dx + r * Dp + i, load(dx + r * Dp + i) + through);
    }
  }
}

SEPARATE void norm_backward(const Sizes *s, long rows, const float *dy, const float *normal, const float *scale,
                            const float *gain, float *dgain, float *dshift, float *dx) {
  long Dp = s->Dp;
  IN_TILES(row, rows, {
    norm_rows_backward(s, R, dy + row * Dp, normal + row * Dp, scale + row, gain, dgain, dshift, dx + row * Dp);
  })
}

/* ------------------------------------------------------------------------------------------------- attention */

/* One head of one sequence: n queries, the first at position `from`, over keys 0 … from + n - 1.
 * query, mixed: rows of stride Ap; keys (S, Cp) transposed; values: rows of stride Ap; weights: rows of stride Cp. */
INLINE v4 attend_rows(const Sizes *s, int R, int Cp, int row, int from, const float *query, const float *keys,
                      const float *values, float *weights, float *mixed, v4 scale) {
  const Constants *k = constants();
  int reach = from + row + R, vectors = (reach + LANES - 1) / LANES, j = 0;
  v4 trouble = splat(0.0f);
  query += (long)row * s->Ap, mixed += (long)row * s->Ap, weights += (long)row * Cp;
  for (; j + 2 <= vectors; j += 2) {
    enum { C = 2 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, s->Sp, query, s->Ap, keys + j * LANES, Cp, sums);
    FOR_TILE store(weights + (long)r * Cp + (j + c) * LANES, sums[r][c]);
  }
  if (j < vectors) {
    enum { C = 1 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, s->Sp, query, s->Ap, keys + j * LANES, Cp, sums);
    FOR_TILE store(weights + (long)r * Cp + (j + c) * LANES, sums[r][c]);
  }
  v4 most[TILE], sum[TILE], e[TILE];
  for (int r = 0; r < R; r++) most[r] = splat(-INFINITE), sum[r] = splat(0.0f);
  for (int v = 0; v < vectors; v++) {
    for (int r = 0; r < R; r++) {
      float *w = weights + (long)r * Cp + v * LANES;
      v4 score = load(w) * scale;
      u4 mask = lanes_below(from + row + r + 1 - v * LANES);
      trouble += (v4)((u4)score & mask) * splat(0.0f);
      score = select(mask, score, splat(-INFINITE));
      most[r] = larger(most[r], score);
      store(w, score);
    }
  }
  for (int r = 0; r < R; r++) most[r] = across_largest(most[r]);
  for (int v = 0; v < vectors; v++) {
    for (int r = 0; r < R; r++) e[r] = load(weights + (long)r * Cp + v * LANES) - most[r];
    exp_negative(R, e, k);
    for (int r = 0; r < R; r++) {
      sum[r] += e[r];
      store(weights + (long)r * Cp + v * LANES, e[r]);
    }
  }
  for (int r = 0; r < R; r++) sum[r] = splat(1.0f) / across_sum(sum[r]);
  for (int v = 0; v < vectors; v++) {
    for (int r = 0; r < R; r++) {
      float *w = weights + (long)r * Cp + v * LANES;
      store(w, load(w) * sum[r]);
    }
  }
  int column = 0;
  for (; column + 2 * LANES <= s->Sp; column += 2 * LANES) {
    enum { C = 2 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, reach, weights, Cp, values + column, s->Ap, sums);
    FOR_TILE store(mixed + (long)r * s->Ap + column + LANES * c, sums[r][c]);
  }
  if (column < s->Sp) {
    enum { C = 1 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, reach, weights, Cp, values + column, s->Ap, sums);
    FOR_TILE store(mixed + (long)r * s->Ap + column + LANES * c, sums[r][c]);
  }
  return trouble;
}

SEPARATE v4 attention_forward(const Sizes *s, int Cp, int n, int from, const float *query, const float *keys,
                              const float *values, float *weights, float *mixed) {
  v4 trouble = splat(0.0f), scale = splat(1.0f) / root(splat((float)s->S));
  IN_TILES(row, n, { trouble += attend_rows(s, R, Cp, (int)row, from, query, keys, values, weights, mixed, scale); })
  return trouble;
}

/* dscores (rows of stride Cp) from dmixed: through the weighted sum of values (transposed, (S, Cp)) and the softmax. */
INLINE void dscores_rows(const Sizes *s, int R, int Cp, int row, int from, const float *dmixed, const float *values,
                         const float *weights, float *dscores, v4 scale) {
  int vectors = (from + row + R + LANES - 1) / LANES, j = 0;
  dmixed += (long)row * s->Ap, weights += (long)row * Cp, dscores += (long)row * Cp;
  for (; j + 2 <= vectors; j += 2) {
    enum { C = 2 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, s->Sp, dmixed, s->Ap, values + j * LANES, Cp, sums);
    FOR_TILE store(dscores + (long)r * Cp + (j + c) * LANES, sums[r][c]);
  }
  if (j < vectors) {
    enum { C = 1 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    multiply_add(R, C, s->Sp, dmixed, s->Ap, values + j * LANES, Cp, sums);
    FOR_TILE store(dscores + (long)r * Cp + (j + c) * LANES, sums[r][c]);
  }
  for (int r = 0; r < R; r++) {
    const float *w = weights + (long)r * Cp;
    float *d = dscores + (long)r * Cp;
    v4 sum = splat(0.0f);
    for (int v = 0; v < vectors; v++) sum += load(d + v * LANES) * load(w + v * LANES);
    sum = across_sum(sum);
    for (int v = 0; v < vectors; v++)
      store(d + v * LANES, load(w + v * LANES) * (load(d + v * LANES) - sum) * scale);
  }
}

/* y (R, S) = a · b over K, the small products of the attention's backward; columns: aᵀ · b. */
INLINE void head_product(const Sizes *s, int R, int columns, long K, const float *a, long lda, const float *b, long ldb,
                         float *y, long ldy) {
  int column = 0;
  for (; column + 2 * LANES <= s->Sp; column += 2 * LANES) {
    enum { C = 2 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    if (columns) multiply_add_columns(R, C, K, a, lda, b + column, ldb, sums);
    else multiply_add(R, C, K, a, lda, b + column, ldb, sums);
    FOR_TILE store(y + (long)r * ldy + column + LANES * c, sums[r][c]);
  }
  if (column < s->Sp) {
    enum { C = 1 };
    v4 sums[TILE][2];
    FOR_TILE sums[r][c] = splat(0.0f);
    if (columns) multiply_add_columns(R, C, K, a, lda, b + column, ldb, sums);
    else multiply_add(R, C, K, a, lda, b + column, ldb, sums);
    FOR_TILE store(y + (long)r * ldy + column + LANES * c, sums[r][c]);
  }
}

/* One head of one sequence. key, dkey, dvalue: rows of stride 2Ap (key and value side by side); query, dquery, dmixed:
 * rows of stride Ap, for the queries at positions from … from + n - 1 only. */
SEPARATE void attention_backward(const Sizes *s, int Cp, int n, int from, const float *dmixed, const float *query,
                                 const float *key, const float *values, const float *weights, float *dscores,
                                 float *dquery, float *dkey, float *dvalue) {
  v4 scale = splat(1.0f) / root(splat((float)s->S));
  long Ap = s->Ap;
  IN_TILES(row, n, {
    dscores_rows(s, R, Cp, (int)row, from, dmixed, values, weights, dscores, scale);
    head_product(s, R, 0, from + row + R, dscores + row * Cp, Cp, key, 2 * Ap, dquery + row * Ap, Ap);
  })
  IN_TILES(row, from + n, {
    long first = row > from ? row - from : 0; /* the first query that sees any of these keys */
    head_product(s, R, 1, n - first, weights + first * Cp + row, Cp, dmixed + first * Ap, Ap, dvalue + row * 2 * Ap,
                 2 * Ap);
    head_product(s, R, 1, n - first, dscores + first * Cp + row, Cp, query + first * Ap, Ap, dkey + row * 2 * Ap,
                 2 * Ap);
  })
}

/* ------------------------------------------------------------------------------------------- rows of logits */

INLINE v4 row_vector(const float *row, int i, int n, float fill) {
  return i + LANES <= n ? load(row + i) : load_part(row + i, n - i, fill);
}

/* The largest of a row and Σ exp(x - largest), each in every lane. */
INLINE void row_sum(const float *row, int n, v4 *largest, v4 *sum) {
  const Constants *k = constants();
  v4 most = splat(-INFINITE), total = splat(0.0f);
  for (int i = 0; i < n; i += LANES) most = larger(most, row_vector(row, i, n, -INFINITE));
  most = across_largest(most);
  for (int i = 0; i < n; i += LANES) total += exp_negative_alone(row_vector(row, i, n, -INFINITE) - most, k);
  *largest = most, *sum = across_sum(total);
}

INLINE void put_vector(float *row, int i, int n, v4 x) {
  if (i + LANES <= n) store(row + i, x);
  else store_part(row + i, x, n - i);
}

INLINE void softmax_row(const float *row, int n, float *y) {
  const Constants *k = constants();
  v4 most, sum;
  row_sum(row, n, &most, &sum);
  v4 share = splat(1.0f) / sum;
  for (int i = 0; i < n; i += LANES)
    put_vector(y, i, n, exp_negative_alone(row_vector(row, i, n, -INFINITE) - most, k) * share);
}

INLINE float logprob_of(const float *row, int n, int target) {
  v4 most, sum;
  row_sum(row, n, &most, &sum);
  return (row[target] - most[0]) - log_any(sum)[0];
}

/* dlogits of weight · log-probability of the target: weight · (1 at the target - softmax). */
INLINE void logprob_gradient_row(const float *row, int n, int target, float weight, float *y) {
  if (weight == 0.0f) {
    for (int i = 0; i < n; i += LANES) put_vector(y, i, n, splat(0.0f));
    return;
  }
  softmax_row(row, n, y);
  for (int i = 0; i < n; i += LANES) put_vector(y, i, n, row_vector(y, i, n, 0.0f) * splat(-weight));
  y[target] += weight;
}

/* 0 × each number, summed: a NaN in it if one of them is not finite. */
SEPARATE v4 finite_trouble(const float *x, long n) {
  v4 trouble = splat(0.0f);
  long i = 0;
  for (; i + LANES <= n; i += LANES) trouble += load(x + i) * splat(0.0f);
  if (i < n) trouble += load_part(x + i, (int)(n - i), 0.0f) * splat(0.0f);
  return trouble;
}

/* ------------------------------------------------------------------------------- the model, a block at a time
 *
 * A batch is worked on in blocks of a few sequences, whose numbers fit in the cache nearest to the core. In the last
 * layer only the positions from `first` on are followed beyond keys and values: earlier ones have no loss (a prompt), or
 * nobody reads their logits (decoding). "Followed" rows are those.
 */

typedef struct {
  int G, n, from, first; /* sequences; new positions of each; position of the first new one; first followed one */
  int Cp;                /* room for keys, padded */
  long rows, followed;   /* G·n and G·(n - first) */
} Block;

INLINE Block block_of(int G, int n, int from, int first, int room) {
  return (Block){G, n, from, first, up(room, PANEL), (long)G * n, (long)G * (n - first)};
}

/* What the backward needs of one layer. */
typedef struct {
  float *normal1, *scale1, *y1, *y1_followed, *query, *key_value, *weights, *mixed;
  float *normal2, *scale2, *y2, *active, *slope;
} Kept;

INLINE Kept cut_kept(Arena *arena, const Sizes *s, const Block *b, int last) {
  long rows = b->rows, followed = last ? b->followed : rows, n = last ? b->n - b->first : b->n;
  Kept k;
  k.normal1 = take(arena, rows * s->Dp), k.scale1 = take(arena, rows), k.y1 = take(arena, rows * s->Dp);
  k.y1_followed = last && b->first ? take(arena, followed * s->Dp) : k.y1;
  k.query = take(arena, followed * s->Ap), k.key_value = take(arena, rows * 2 * s->Ap);
  k.weights = take(arena, b->G * n * s->H * b->Cp), k.mixed = take(arena, followed * s->Ap);
  k.normal2 = take(arena, followed * s->Dp), k.scale2 = take(arena, followed);
  k.y2 = take(arena, followed * s->Dp);
  k.active = take(arena, followed * s->Fp), k.slope = take(arena, followed * s->Fp);
  return k;
}

typedef struct {
  float *normal, *scale, *hidden;
} KeptEnd;

INLINE KeptEnd cut_kept_end(Arena *arena, const Sizes *s, const Block *b) {
  KeptEnd k;
  k.normal = take(arena, b->followed * s->Dp), k.scale = take(arena, b->followed);
  k.hidden = take(arena, b->followed * s->Dp);
  return k;
}

/* The whole of what a block keeps: layer after layer, then the end. In decoding all layers share one place. */
INLINE long kept_floats(const Sizes *s, const Block *b) {
  Arena arena = {0, 0};
  for (int layer = 0; layer < s->L; layer++) cut_kept(&arena, s, b, layer == s->L - 1);
  cut_kept_end(&arena, s, b);
  return arena.used;
}

/* Keys (transposed, (Ap, Cp)) and values ((Cp, Ap)) of one sequence in one layer. */
INLINE long memory_floats(const Sizes *s, int Cp) { return 2L * s->Ap * Cp; }

/* Embeddings of tokens (rows of `stride`) at their positions → x. Returns 0 if a token is outside the vocabulary. */
SEPARATE int embed(const Sizes *s, const Ends *e, const Block *b, const int *tokens, long stride, float *x) {
  for (int g = 0; g < b->G; g++) {
    for (int t = 0; t < b->n; t++, x += s->Dp) {
      int token = tokens[g * stride + t];
      if (token < 0 || token >= s->V) return 0;
      const float *word = e->token + (long)token * s->Dp, *place = e->position + (long)(b->from + t) * s->Dp;
      for (int i = 0; i < s->Dp; i += LANES) store(x + i, load(word + i) + load(place + i));
    }
  }
  return 1;
}

/* The columns beyond the last head, which no head writes. */
INLINE void clear_columns(const Sizes *s, long rows, float *x, long ldx) {
  int heads = s->H * s->Sp;
  if (heads != s->Ap)
    for (long row = 0; row < rows; row++) fill_zero(x + row * ldx + heads, s->Ap - heads);
}

/* One block of sequences through one layer. x (rows, Dp) in; out in place, compacted to the followed rows when last.
 * memory: keys and values, `slots[g]` telling which sequence of it is g (0: they are in order). */
SEPARATE int layer_forward(const Sizes *s, const Layer *l, const Block *b, const Kept *k, int last, float *x,
                           float *memory, const int *slots) {
  int first = last ? b->first : 0, n = b->n - first, Ap = s->Ap;
  long followed = last ? b->followed : b->rows;
  v4 trouble = norm_forward(s, b->rows, x, l->gain1, l->shift1, k->normal1, k->scale1, k->y1);
  if (any_nan(trouble)) return BAD_NORM;
  if (first) {
    for (int g = 0; g < b->G; g++) {
      copy(k->y1_followed + (long)g * n * s->Dp, k->y1 + ((long)g * b->n + first) * s->Dp, (long)n * s->Dp);
      copy(x + (long)g * n * s->Dp, x + ((long)g * b->n + first) * s->Dp, (long)n * s->Dp);
    }
  }
  affine(followed, Ap, s->Dp, k->y1_followed, s->Dp, l->attention, (long)s->Dp * PANEL, l->attention_bias, k->query, Ap);
  affine(b->rows, 2 * Ap, s->Dp, k->y1, s->Dp, l->attention + (long)s->Dp * Ap, (long)s->Dp * PANEL,
         l->attention_bias + Ap, k->key_value, 2 * Ap);
  trouble = splat(0.0f);
  for (int g = 0; g < b->G; g++) {
    float *keys = memory + (slots ? slots[g] : g) * memory_floats(s, b->Cp), *values = keys + (long)Ap * b->Cp;
    const float *key = k->key_value + (long)g * b->n * 2 * Ap;
    if (b->from % LANES == 0) {
      transpose(b->n, Ap, key, 2 * Ap, keys + b->from, b->Cp);
    } else {
      for (int t = 0; t < b->n; t++)
        for (int i = 0; i < Ap; i++) keys[(long)i * b->Cp + b->from + t] = key[(long)t * 2 * Ap + i];
    }
    copy_rows(b->n, Ap, key + Ap, 2 * Ap, values + (long)b->from * Ap, Ap);
    for (int h = 0; h < s->H; h++) {
      trouble += attention_forward(s, b->Cp, n, b->from + first, k->query + (long)g * n * Ap + h * s->Sp,
                                   keys + (long)h * s->Sp * b->Cp, values + h * s->Sp,
                                   k->weights + ((long)g * s->H + h) * n * b->Cp,
                                   k->mixed + (long)g * n * Ap + h * s->Sp);
    }
  }
  if (any_nan(trouble)) return BAD_SCORES;
  clear_columns(s, followed, k->mixed, Ap);
  affine_added(followed, s->Dp, Ap, k->mixed, Ap, l->projection, (long)Ap * PANEL, l->projection_bias, x, s->Dp);
  trouble = norm_forward(s, followed, x, l->gain2, l->shift2, k->normal2, k->scale2, k->y2);
  if (any_nan(trouble)) return BAD_NORM;
  affine(followed, s->Fp, s->Dp, k->y2, s->Dp, l->expand, (long)s->Dp * PANEL, l->expand_bias, k->active, s->Fp);
  gelu(followed * s->Fp, k->active, k->slope);
  affine_added(followed, s->Dp, s->Fp, k->active, s->Fp, l->contract, (long)s->Fp * PANEL, l->contract_bias, x, s->Dp);
  return FINE;
}

/* A block through the whole model. `kept` has room for kept_floats; x for the rows; logits (followed, Vp) out.
 * memory: [layer][sequence], `sequences` of them a layer. shared: all layers keep in one place (no backward follows). */
SEPARATE int block_forward(const Sizes *s, const Model *m, const Block *b, const int *tokens, long stride, float *kept,
                           int shared, float *x, float *memory, int sequences, const int *slots, float *logits) {
  Ends e = ends_of(m, s);
  if (!embed(s, &e, b, tokens, stride, x)) return BAD_TOKEN;
  Arena arena = {kept, 0};
  for (int layer = 0; layer < s->L; layer++) {
    if (shared) arena.used = 0;
    Kept k = cut_kept(&arena, s, b, layer == s->L - 1);
    Layer l = layer_of(m, s, layer);
    int bad = layer_forward(s, &l, b, &k, layer == s->L - 1, x, memory + layer * sequences * memory_floats(s, b->Cp),
                            slots);
    if (bad) return bad + STATUS_PLACE * layer;
  }
  KeptEnd k = cut_kept_end(&arena, s, b);
  v4 trouble = norm_forward(s, b->followed, x, e.gain, e.shift, k.normal, k.scale, k.hidden);
  if (any_nan(trouble)) return BAD_NORM + STATUS_PLACE * s->L;
  affine(b->followed, s->Vp, s->Dp, k.hidden, s->Dp, e.head, (long)s->Dp * PANEL, 0, logits, s->Vp);
  return any_nan(finite_trouble(logits, b->followed * s->Vp)) ? BAD_LOGITS : FINE;
}

/* Room for the backward of one block. */
typedef struct {
  float *dx, *dwide, *dy, *dmixed, *dquery, *dkey_value, *dscores, *values, *dlogits;
} Scratch;

INLINE Scratch cut_scratch(Arena *arena, const Sizes *s, const Block *b) {
  Scratch w;
  w.dx = take(arena, b->rows * s->Dp), w.dwide = take(arena, b->rows * s->Fp), w.dy = take(arena, b->rows * s->Dp);
  w.dmixed = take(arena, b->rows * s->Ap), w.dquery = take(arena, b->rows * s->Ap);
  w.dkey_value = take(arena, b->rows * 2 * s->Ap), w.dscores = take(arena, (long)b->n * b->Cp);
  w.values = take(arena, (long)s->Ap * b->Cp), w.dlogits = take(arena, b->rows * s->Vp);
  return w;
}

/* w.dx holds the gradient at the layer's output (followed rows) and is replaced by the one at its input (all rows). */
SEPARATE void layer_backward(const Sizes *s, const Layer *l, const Transposed *t, const Layer *d, const Block *b,
                             const Kept *k, int last, const Scratch *w) {
  int first = last ? b->first : 0, n = b->n - first, Ap = s->Ap, Dp = s->Dp, Fp = s->Fp;
  long followed = last ? b->followed : b->rows;

  affine_times(followed, Fp, Dp, w->dx, Dp, t->contract, (long)Dp * PANEL, k->slope, w->dwide, Fp);
  outer_added(Fp, Dp, followed, k->active, Fp, w->dx, Dp, d->contract, Dp);
  rows_added(followed, Dp, w->dx, Dp, d->contract_bias);
  affine(followed, Dp, Fp, w->dwide, Fp, t->expand, (long)Fp * PANEL, 0, w->dy, Dp);
  outer_added(Dp, Fp, followed, k->y2, Dp, w->dwide, Fp, d->expand, Fp);
  rows_added(followed, Fp, w->dwide, Fp, d->expand_bias);
  norm_backward(s, followed, w->dy, k->normal2, k->scale2, l->gain2, d->gain2, d->shift2, w->dx);

  affine(followed, Ap, Dp, w->dx, Dp, t->projection, (long)Dp * PANEL, 0, w->dmixed, Ap);
  outer_added(Ap, Dp, followed, k->mixed, Ap, w->dx, Dp, d->projection, Dp);
  rows_added(followed, Dp, w->dx, Dp, d->projection_bias);
  for (int g = 0; g < b->G; g++) {
    long row = (long)g * b->n, at = (long)g * n;
    const float *key_value = k->key_value + row * 2 * Ap;
    float *dkey_value = w->dkey_value + row * 2 * Ap;
    transpose(b->n, Ap, key_value + Ap, 2 * Ap, w->values, b->Cp);
    for (int h = 0; h < s->H; h++) {
      int head = h * s->Sp;
      attention_backward(s, b->Cp, n, b->from + first, w->dmixed + at * Ap + head, k->query + at * Ap + head,
                         key_value + head, w->values + (long)head * b->Cp,
                         k->weights + (at * s->H + (long)h * n) * b->Cp, w->dscores, w->dquery + at * Ap + head,
                         dkey_value + head, dkey_value + Ap + head);
    }
  }
  clear_columns(s, followed, w->dquery, Ap);
  clear_columns(s, b->rows, w->dkey_value, 2 * Ap);
  clear_columns(s, b->rows, w->dkey_value + Ap, 2 * Ap);

  long panel = 3L * Ap * PANEL;
  affine(b->rows, Dp, 2 * Ap, w->dkey_value, 2 * Ap, t->attention + (long)Ap * PANEL, panel, 0, w->dy, Dp);
  outer_added(Dp, 2 * Ap, b->rows, k->y1, Dp, w->dkey_value, 2 * Ap, d->attention + Ap, 3 * Ap);
  rows_added(b->rows, 2 * Ap, w->dkey_value, 2 * Ap, d->attention_bias + Ap);
  outer_added(Dp, Ap, followed, k->y1_followed, Dp, w->dquery, Ap, d->attention, 3 * Ap);
  rows_added(followed, Ap, w->dquery, Ap, d->attention_bias);
  if (first == 0) {
    affine_added(followed, Dp, Ap, w->dquery, Ap, t->attention, panel, 0, w->dy, Dp);
  } else {
    for (int g = b->G - 1; g >= 0; g--) { /* backwards: rows move up in place */
      float *dx = w->dx + (long)g * b->n * Dp;
      for (long i = n - 1; i >= 0; i--) copy(dx + (first + i) * Dp, w->dx + ((long)g * n + i) * Dp, Dp);
      affine_added(n, Dp, Ap, w->dquery + (long)g * n * Ap, Ap, t->attention, panel, 0,
                   w->dy + ((long)g * b->n + first) * Dp, Dp);
    }
    for (int g = 0; g < b->G; g++) fill_zero(w->dx + (long)g * b->n * Dp, (long)first * Dp);
  }
  norm_backward(s, b->rows, w->dy, k->normal1, k->scale1, l->gain1, d->gain1, d->shift1, w->dx);
}

/* The gradient of one block is added to d. dlogits (followed, Vp) or 0; dhidden (followed, D) as the caller has it, or 0.
 */
SEPARATE void block_backward(const Sizes *s, const Model *m, const float *transposed, const Model *d, const Block *b,
                             const int *tokens, long stride, float *kept, const float *dlogits, const float *dhidden,
                             const Scratch *w) {
  Ends e = ends_of(m, s), de = ends_of(d, s);
  Arena layer_arena = {0, 0};
  cut_transposed(&layer_arena, s);
  long transposed_floats = layer_arena.used;
  Arena arena = {kept, 0};
  for (int layer = 0; layer < s->L; layer++) cut_kept(&arena, s, b, layer == s->L - 1);
  KeptEnd k = cut_kept_end(&arena, s, b);
  if (dhidden) pack_rows(b->followed, s->D, s->Dp, dhidden, w->dy);
  else fill_zero(w->dy, b->followed * s->Dp);
  if (dlogits) {
    affine_added(b->followed, s->Dp, s->Vp, dlogits, s->Vp, transposed + s->L * transposed_floats,
                 (long)s->Vp * PANEL, 0, w->dy, s->Dp);
    outer_added(s->Dp, s->Vp, b->followed, k.hidden, s->Dp, dlogits, s->Vp, de.head, s->Vp);
  }
  fill_zero(w->dx, b->followed * s->Dp);
  norm_backward(s, b->followed, w->dy, k.normal, k.scale, e.gain, de.gain, de.shift, w->dx);
  for (int layer = s->L - 1; layer >= 0; layer--) {
    Arena before = {kept, 0}, transposes = {(float *)transposed, layer * transposed_floats};
    for (int earlier = 0; earlier < layer; earlier++) cut_kept(&before, s, b, 0);
    Kept kl = cut_kept(&before, s, b, layer == s->L - 1);
    Layer l = layer_of(m, s, layer), dl = layer_of(d, s, layer);
    Transposed t = cut_transposed(&transposes, s);
    layer_backward(s, &l, &t, &dl, b, &kl, layer == s->L - 1, w);
  }
  const float *dx = w->dx;
  for (int g = 0; g < b->G; g++) {
    for (int position = 0; position < b->n; position++, dx += s->Dp) {
      float *word = de.token + (long)tokens[g * stride + position] * s->Dp, *place = de.position + (long)position * s->Dp;
      for (int i = 0; i < s->Dp; i += LANES) {
        v4 x = load(dx + i);
        store(word + i, load(word + i) + x);
        store(place + i, load(place + i) + x);
      }
    }
  }
}

/* Transposes of all layers' matrices, then the head's. */
INLINE long transposed_floats(const Sizes *s) {
  Arena arena = {0, 0};
  cut_transposed(&arena, s);
  return s->L * arena.used + (long)s->Dp * s->Vp;
}

SEPARATE void transpose_model(const Sizes *s, const Model *m, float *transposed) {
  Arena arena = {transposed, 0};
  for (int layer = 0; layer < s->L; layer++) {
    Layer l = layer_of(m, s, layer);
    Transposed t = cut_transposed(&arena, s);
    transpose_panels(s->Dp, 3L * s->Ap, l.attention, t.attention);
    transpose_panels(s->Ap, s->Dp, l.projection, t.projection);
    transpose_panels(s->Dp, s->Fp, l.expand, t.expand);
    transpose_panels(s->Fp, s->Dp, l.contract, t.contract);
  }
  transpose_panels(s->Dp, s->Vp, ends_of(m, s).head, transposed + arena.used);
}

/* --------------------------------------------------------------------------------------------- public functions
 *
 * shape: vocabulary, context, width, layers, heads, hidden. Arrays are contiguous, float32 or int32. `floats` is the size
 * of the workspace; the function `…_floats` tells how many are needed.
 */

#ifndef BLOCK_ROWS
#define BLOCK_ROWS 64 /* of a block, whose numbers then stay in the second-level cache; they do not depend on it */
#endif

INLINE int block_sequences(int B, int T) {
  int G = BLOCK_ROWS / T;
  return G < 1 ? 1 : G > B ? B : G;
}

INLINE long parameter_count(const Sizes *s) {
  long D = s->D, F = s->F;
  return (2L * s->V + s->C) * D + s->L * (4 * D + 3 * D * D + 3 * D + D * D + D + 2 * D * F + F + D) + 2 * D;
}

typedef struct {
  Sizes s;
  Model m;
  Block b; /* a full block */
  int G, blocks;
  float *x, *memory, *kept;
  long each;
} Pass;

/* What a forward writes and its backward reads. */
INLINE Pass cut_pass(Arena *arena, const int *shape, int B, int T, int first, int shared) {
  Pass p = {.s = sizes_of(shape), .G = block_sequences(B, T)};
  p.blocks = shared ? 1 : (B + p.G - 1) / p.G;
  p.b = block_of(p.G, T, 0, first, T);
  p.m = cut_model(arena, &p.s);
  p.x = take(arena, p.b.rows * p.s.Dp);
  p.memory = take(arena, p.G * p.s.L * memory_floats(&p.s, p.b.Cp));
  p.each = kept_floats(&p.s, &p.b);
  p.kept = take(arena, p.blocks * p.each);
  return p;
}

PUBLIC long raona_forward_floats(const int *shape, int B, int T) {
  Arena arena = {0, 0};
  Pass p = cut_pass(&arena, shape, B, T, 0, 0);
  take(&arena, p.b.rows * p.s.Vp);
  return arena.used;
}

/* tokens (B, T) → logits (B, T, V), hidden (B, T, D); the workspace keeps what the backward needs. */
PUBLIC int raona_forward(const int *shape, int B, int T, const float *parameters, const int *tokens, float *logits,
                         float *hidden, float *workspace, long floats) {
  Arena arena = {workspace, 0};
  Pass p = cut_pass(&arena, shape, B, T, 0, 0);
  float *padded = take(&arena, p.b.rows * p.s.Vp);
  if (arena.used > floats) return SMALL_WORKSPACE;
  const Sizes *s = &p.s;
  pack_model(s, parameters, &p.m);
  for (int at = 0, block = 0; at < B; at += p.G, block++) {
    int G = B - at < p.G ? B - at : p.G;
    Block b = block_of(G, T, 0, 0, T);
    float *kept = p.kept + block * p.each;
    int bad = block_forward(s, &p.m, &b, tokens + (long)at * T, T, kept, 0, p.x, p.memory, G, 0, padded);
    if (bad) return bad;
    copy_rows(b.rows, s->V, padded, s->Vp, logits + (long)at * T * s->V, s->V);
    Arena inside = {kept, 0};
    for (int layer = 0; layer < s->L; layer++) cut_kept(&inside, s, &b, layer == s->L - 1);
    copy_rows(b.rows, s->D, cut_kept_end(&inside, s, &b).hidden, s->Dp, hidden + (long)at * T * s->D, s->D);
  }
  return FINE;
}

PUBLIC long raona_backward_floats(const int *shape, int B, int T) {
  Arena arena = {0, 0};
  Sizes s = sizes_of(shape);
  Block b = block_of(block_sequences(B, T), T, 0, 0, T);
  cut_model(&arena, &s);
  take(&arena, transposed_floats(&s));
  cut_scratch(&arena, &s, &b);
  return arena.used;
}

/* gradient: flat. kept: the workspace of the forward (read only); workspace: the backward's own. */
PUBLIC int raona_backward(const int *shape, int B, int T, const int *tokens, float *kept_workspace, long kept_floats_,
                          const float *dlogits, const float *dhidden, float *gradient, float *workspace, long floats) {
  Arena kept_arena = {kept_workspace, 0}, arena = {workspace, 0};
  Pass p = cut_pass(&kept_arena, shape, B, T, 0, 0);
  const Sizes *s = &p.s;
  Model d = cut_model(&arena, s);
  float *transposed = take(&arena, transposed_floats(s));
  Scratch w = cut_scratch(&arena, s, &p.b);
  if (arena.used > floats || kept_arena.used > kept_floats_) return SMALL_WORKSPACE;
  fill_zero(d.base, model_floats(&d, s));
  transpose_model(s, &p.m, transposed);
  for (int at = 0, block = 0; at < B; at += p.G, block++) {
    int G = B - at < p.G ? B - at : p.G;
    Block b = block_of(G, T, 0, 0, T);
    long row = (long)at * T;
    if (dlogits) pack_rows(b.rows, s->V, s->Vp, dlogits + row * s->V, w.dlogits);
    block_backward(s, &p.m, transposed, &d, &b, tokens + row, T, p.kept + block * p.each, dlogits ? w.dlogits : 0,
                   dhidden ? dhidden + row * s->D : 0, &w);
  }
  unpack_model(s, &d, gradient);
  return any_nan(finite_trouble(gradient, parameter_count(s))) ? BAD_GRADIENT : FINE;
}

typedef struct {
  v4 shrink, keep1, keep2, new1, new2, epsilon, rate, correct;
} AdamRule;

INLINE void adam_vectors(int N, v4 g[TILE], v4 m[TILE], v4 q[TILE], v4 x[TILE], const AdamRule *rule) {
  SIDE_BY_SIDE(g, g[j] * rule->shrink)
  SIDE_BY_SIDE(m, rule->keep1 * m[j] + rule->new1 * g[j])
  SIDE_BY_SIDE(q, rule->keep2 * q[j] + rule->new2 * g[j] * g[j])
  SIDE_BY_SIDE(g, root(q[j] * rule->correct) + rule->epsilon)
  SIDE_BY_SIDE(x, x[j] - rule->rate * m[j] / g[j])
}

/* ---- Adam. settings: beta1, beta2, epsilon, rate/(1 - beta1^t), 1/(1 - beta2^t), norm to clip at (0: no clipping).
 * norm[0] out: the gradient's norm before clipping, summed in double. Nothing is changed if it is not finite, or if the
 * squares would overflow. Also for networks other than the GPT. */
PUBLIC int raona_adam(long count, float *vector, const float *gradient, float *mean, float *square,
                      const double *settings, double *norm) {
  d2 low = {0, 0}, high = {0, 0};
  long i = 0;
  for (; i + LANES <= count; i += LANES) {
    v4 g = load(gradient + i);
    d2 a = __builtin_convertvector(__builtin_shufflevector(g, g, 0, 1), d2);
    d2 b = __builtin_convertvector(__builtin_shufflevector(g, g, 2, 3), d2);
    low += a * a, high += b * b;
  }
  double squares = (low[0] + low[1]) + (high[0] + high[1]);
  for (long j = i; j < count; j++) squares += (double)gradient[j] * (double)gradient[j];
  *norm = __builtin_elementwise_sqrt(squares);
  double clip = settings[5], after = clip > 0 && *norm > clip ? clip : *norm;
  if (!(after <= 1e19) || !(*norm < __builtin_inf())) return BAD_GRADIENT;
  float shrink_by = clip > 0 && *norm > clip ? (float)(clip / *norm) : 1.0f;
  float one_less1 = 1.0f - (float)settings[0], one_less2 = 1.0f - (float)settings[1];
  AdamRule rule = {splat(shrink_by), splat((float)settings[0]), splat((float)settings[1]), splat(one_less1),
                   splat(one_less2), splat((float)settings[2]), splat((float)settings[3]), splat((float)settings[4])};
  for (i = 0; i + TILE * LANES <= count; i += TILE * LANES) {
    v4 g[TILE], m[TILE], q[TILE], x[TILE];
    for (int j = 0; j < TILE; j++) {
      g[j] = load(gradient + i + j * LANES), m[j] = load(mean + i + j * LANES);
      q[j] = load(square + i + j * LANES), x[j] = load(vector + i + j * LANES);
    }
    adam_vectors(TILE, g, m, q, x, &rule);
    for (int j = 0; j < TILE; j++) {
      store(mean + i + j * LANES, m[j]), store(square + i + j * LANES, q[j]), store(vector + i + j * LANES, x[j]);
    }
  }
  for (; i < count; i += LANES) {
    int left = count - i < LANES ? (int)(count - i) : LANES;
    v4 g[TILE], m[TILE], q[TILE], x[TILE];
    if (left < LANES) {
      g[0] = load_part(gradient + i, left, 0.0f), m[0] = load_part(mean + i, left, 0.0f);
      q[0] = load_part(square + i, left, 0.0f), x[0] = load_part(vector + i, left, 0.0f);
      adam_vectors(1, g, m, q, x, &rule);
      store_part(mean + i, m[0], left), store_part(square + i, q[0], left), store_part(vector + i, x[0], left);
    } else {
      g[0] = load(gradient + i), m[0] = load(mean + i), q[0] = load(square + i), x[0] = load(vector + i);
      adam_vectors(1, g, m, q, x, &rule);
      store(mean + i, m[0]), store(square + i, q[0]), store(vector + i, x[0]);
    }
  }
  return FINE;
}

/* ---- One training step without leaving the kernel: forward, Σ weights · log-probability, backward, Adam. */

typedef struct {
  Pass p;
  Model d;
  float *transposed, *logits, *gradient;
  Scratch w;
} Step;

INLINE Step cut_step(Arena *arena, const int *shape, int B, int T, int first, long count) {
  Step t = {.p = cut_pass(arena, shape, B, T, first, 1)};
  t.d = cut_model(arena, &t.p.s);
  t.transposed = take(arena, transposed_floats(&t.p.s));
  t.logits = take(arena, t.p.b.rows * t.p.s.Vp);
  t.gradient = take(arena, count);
  t.w = cut_scratch(arena, &t.p.s, &t.p.b);
  return t;
}

PUBLIC long raona_step_floats(const int *shape, int B, int T) {
  Arena arena = {0, 0};
  Sizes s = sizes_of(shape);
  cut_step(&arena, shape, B, T, 0, parameter_count(&s));
  return arena.used;
}

/* tokens (B, T + 1): inputs are all but the last, targets all but the first. weights (B, T). In place on parameters, mean
 * and square. Positions before the first one with a weight are not followed in the last layer: their share is zero. */
PUBLIC int raona_step(const int *shape, int B, int T, float *parameters, const int *tokens, const float *weights,
                      float *mean, float *square, const double *settings, double *norm, float *workspace, long floats) {
  int first = T - 1;
  for (int g = 0; g < B; g++)
    for (int t = 0; t < first; t++)
      if (weights[(long)g * T + t] != 0.0f) first = t;
  Sizes sizes = sizes_of(shape);
  long count = parameter_count(&sizes);
  Arena arena = {workspace, 0};
  Step step = cut_step(&arena, shape, B, T, first, count);
  if (arena.used > floats) return SMALL_WORKSPACE;
  const Pass *p = &step.p;
  const Sizes *s = &p->s;
  pack_model(s, parameters, &p->m);
  transpose_model(s, &p->m, step.transposed);
  fill_zero(step.d.base, model_floats(&step.d, s));
  for (int at = 0; at < B; at += p->G) {
    int G = B - at < p->G ? B - at : p->G;
    Block b = block_of(G, T, 0, first, T);
    const int *block_tokens = tokens + (long)at * (T + 1);
    int bad = block_forward(s, &p->m, &b, block_tokens, T + 1, p->kept, 0, p->x, p->memory, G, 0, step.logits);
    if (bad) return bad;
    for (int g = 0, row = 0; g < G; g++) {
      for (int t = first; t < T; t++, row++) {
        int target = block_tokens[g * (T + 1) + t + 1];
        if (target < 0 || target >= s->V) return BAD_TOKEN;
        float *logits = step.logits + (long)row * s->Vp;
        logprob_gradient_row(logits, s->V, target, weights[(long)(at + g) * T + t], step.w.dlogits + (long)row * s->Vp);
        for (int i = s->V; i < s->Vp; i++) step.w.dlogits[(long)row * s->Vp + i] = 0.0f;
      }
    }
    block_backward(s, &p->m, step.transposed, &step.d, &b, block_tokens, T + 1, p->kept, step.w.dlogits, 0, &step.w);
  }
  unpack_model(s, &step.d, step.gradient);
  return raona_adam(count, parameters, step.gradient, mean, square, settings, norm);
}

/* ---- Decoding: blocks of sequences, each with its own keys and values. */

#ifndef DECODE_SEQUENCES
#define DECODE_SEQUENCES 16
#endif

typedef struct {
  Model m;
  float *x, *memory, *kept, *logits, *probabilities;
  int *running, *new_tokens;
} Decoding;

INLINE Decoding cut_decoding(Arena *arena, const Sizes *s, int B, int P, int length) {
  int G = B < DECODE_SEQUENCES ? B : DECODE_SEQUENCES, room = up(P + length - 1, PANEL);
  Block longest = block_of(G, P, 0, 0, room);
  Decoding d;
  d.m = cut_model(arena, s);
  d.x = take(arena, longest.rows * s->Dp);
  d.memory = take(arena, G * s->L * memory_floats(s, room));
  d.kept = take(arena, kept_floats(s, &longest));
  d.logits = take(arena, (long)G * s->Vp);
  d.probabilities = take(arena, s->V);
  d.running = (int *)take(arena, G);
  d.new_tokens = (int *)take(arena, G);
  return d;
}

PUBLIC long raona_decode_floats(const int *shape, int B, int P, int length) {
  Arena arena = {0, 0};
  Sizes s = sizes_of(shape);
  cut_decoding(&arena, &s, B, P, length);
  return arena.used;
}

/* The first of the largest. */
INLINE int greedy(const float *row, int n) {
  int best = 0;
  for (int i = 1; i < n; i++)
    if (row[i] > row[best]) best = i;
  return best;
}

/* How many cumulative probabilities are <= u (times their total, which rounding leaves near 1); at most n - 1. */
INLINE int inverse_cdf(const float *row, int n, float *probabilities, float u) {
  softmax_row(row, n, probabilities);
  float total = 0.0f;
  for (int i = 0; i < n; i++) total += probabilities[i], probabilities[i] = total;
  float threshold = u * total;
  int token = 0;
  for (int i = 0; i < n; i++) token += probabilities[i] <= threshold;
  return token < n ? token : n - 1;
}

/* prompts (B, P) → tokens, logprobs (B, length), padded with `end` and 0. uniforms (B, length), or 0 for greedy. */
PUBLIC int raona_decode(const int *shape, int B, int P, int length, const float *parameters, const int *prompts,
                        const float *uniforms, float temperature, int end, int *tokens, float *logprobs,
                        float *workspace, long floats) {
  Arena arena = {workspace, 0};
  Sizes sizes = sizes_of(shape);
  const Sizes *s = &sizes;
  Decoding d = cut_decoding(&arena, s, B, P, length);
  if (arena.used > floats) return SMALL_WORKSPACE;
  int room = up(P + length - 1, PANEL), most = B < DECODE_SEQUENCES ? B : DECODE_SEQUENCES;
  pack_model(s, parameters, &d.m);
  for (long i = 0; i < (long)B * length; i++) tokens[i] = end, logprobs[i] = 0.0f;
  for (int at = 0; at < B; at += most) {
    int count = B - at < most ? B - at : most;
    for (int g = 0; g < count; g++) d.running[g] = g;
    fill_zero(d.memory, (long)most * s->L * memory_floats(s, room));
    Block b = block_of(count, P, 0, P - 1, room);
    int bad = block_forward(s, &d.m, &b, prompts + (long)at * P, P, d.kept, 1, d.x, d.memory, most, d.running, d.logits);
    if (bad) return bad;
    for (int step = 0;; step++) {
      int still = 0;
      for (int g = 0; g < count; g++) {
        int sequence = d.running[g];
        long place = (long)(at + sequence) * length + step;
        float *row = d.logits + (long)g * s->Vp;
        if (uniforms)
          for (int i = 0; i < s->V; i++) row[i] = row[i] / temperature;
        int token = uniforms ? inverse_cdf(row, s->V, d.probabilities, uniforms[place]) : greedy(row, s->V);
        tokens[place] = token;
        logprobs[place] = logprob_of(row, s->V, token);
        if (token != end) d.running[still] = sequence, d.new_tokens[still++] = token;
      }
      count = still;
      if (count == 0 || step + 1 == length) break;
      b = block_of(count, 1, P + step, 0, room);
      bad = block_forward(s, &d.m, &b, d.new_tokens, 1, d.kept, 1, d.x, d.memory, most, d.running, d.logits);
      if (bad) return bad;
    }
  }
  return FINE;
}

/* ---- Rows of logits, (rows, n) contiguous. */

PUBLIC int raona_softmax(long rows, int n, const float *x, float *y) {
  if (any_nan(finite_trouble(x, rows * n))) return BAD_LOGITS;
  for (long row = 0; row < rows; row++) softmax_row(x + row * n, n, y + row * n);
  return FINE;
}

PUBLIC int raona_log_softmax(long rows, int n, const float *x, float *y) {
  if (any_nan(finite_trouble(x, rows * n))) return BAD_LOGITS;
  for (long row = 0; row < rows; row++, x += n, y += n) {
    v4 most, sum;
    row_sum(x, n, &most, &sum);
    sum = log_any(sum);
    for (int i = 0; i < n; i += LANES) put_vector(y, i, n, (row_vector(x, i, n, 0.0f) - most) - sum);
  }
  return FINE;
}

/* dx = dy - exp(y)·Σdy, y being the log-softmax */
PUBLIC int raona_log_softmax_backward(long rows, int n, const float *dy, const float *y, float *dx) {
  for (long row = 0; row < rows; row++, dy += n, y += n, dx += n) {
    v4 sum = splat(0.0f);
    for (int i = 0; i < n; i += LANES) sum += row_vector(dy, i, n, 0.0f);
    sum = across_sum(sum);
    for (int i = 0; i < n; i += LANES)
      put_vector(dx, i, n, row_vector(dy, i, n, 0.0f) - exp_any(row_vector(y, i, n, 0.0f), constants()) * sum);
  }
  return FINE;
}

PUBLIC int raona_token_logprobs(long rows, int n, const float *logits, const int *targets, float *y) {
  if (any_nan(finite_trouble(logits, rows * n))) return BAD_LOGITS;
  for (long row = 0; row < rows; row++) {
    if (targets[row] < 0 || targets[row] >= n) return BAD_TOKEN;
    y[row] = logprob_of(logits + row * n, n, targets[row]);
  }
  return FINE;
}

PUBLIC int raona_logprob_gradient(long rows, int n, const float *logits, const int *targets, const float *weights,
                                  float *y) {
  if (any_nan(finite_trouble(logits, rows * n))) return BAD_LOGITS;
  for (long row = 0; row < rows; row++) {
    if (targets[row] < 0 || targets[row] >= n) return BAD_TOKEN;
    logprob_gradient_row(logits + row * n, n, targets[row], weights[row], y + row * n);
  }
  return FINE;
}

/* ---- Elementwise, and the ordered dot product (in double: the product of two floats is exact there). */

#define ELEMENTWISE(name, expression)                                          \
  PUBLIC void name(long n, const float *x, float *y) {                         \
    long i = 0;                                                                \
    for (; i + LANES <= n; i += LANES) { v4 a = load(x + i); store(y + i, expression); }  \
    if (i < n) { v4 a = load_part(x + i, (int)(n - i), 0.0f); store_part(y + i, expression, (int)(n - i)); } \
  }
#define ELEMENTWISE_BACKWARD(name, expression)                                 \
  PUBLIC void name(long n, const float *dy, const float *x, float *dx) {       \
    long i = 0;                                                                \
    for (; i + LANES <= n; i += LANES) {                                       \
      v4 d = load(dy + i), a = load(x + i);                                    \
      store(dx + i, expression);                                               \
    }                                                                          \
    if (i < n) {                                                               \
      int left = (int)(n - i);                                                 \
      v4 d = load_part(dy + i, left, 0.0f), a = load_part(x + i, left, 0.0f);  \
      store_part(dx + i, expression, left);                                    \
    }                                                                          \
  }

ELEMENTWISE(raona_exp, exp_any(a, constants()))
ELEMENTWISE(raona_log, log_any(a))
ELEMENTWISE(raona_sigmoid, sigmoid_any(a, constants()))
ELEMENTWISE(raona_relu, select((u4)(a < splat(0.0f)), splat(0.0f), a))
ELEMENTWISE_BACKWARD(raona_relu_backward, select((u4)(a > splat(0.0f)), d, splat(0.0f)))         /* of x */
ELEMENTWISE_BACKWARD(raona_sigmoid_backward, d *(a *(splat(1.0f) - a)))                          /* of y */

PUBLIC double raona_dot(long n, const float *x, const float *y) {
  d2 low = {0, 0}, high = {0, 0};
  long i = 0;
  for (; i + LANES <= n; i += LANES) {
    v4 a = load(x + i), b = load(y + i);
    low += __builtin_convertvector(__builtin_shufflevector(a, a, 0, 1), d2) *
           __builtin_convertvector(__builtin_shufflevector(b, b, 0, 1), d2);
    high += __builtin_convertvector(__builtin_shufflevector(a, a, 2, 3), d2) *
            __builtin_convertvector(__builtin_shufflevector(b, b, 2, 3), d2);
  }
  double sum = (low[0] + low[1]) + (high[0] + high[1]);
  for (; i < n; i++) sum += (double)x[i] * (double)y[i];
  return sum;
}

/* ---- y (rows, O) = x (rows, I) · w (I, O) + bias (O), any sizes, for reward models and critics. */

typedef struct {
  float *panels, *transposed, *bias, *dy, *dw;
} Affine;

INLINE Affine cut_affine(Arena *arena, long rows, int I, int O) {
  long Ip = up(I, PANEL), Op = up(O, PANEL);
  Affine a;
  a.panels = take(arena, Ip * Op), a.transposed = take(arena, Ip * Op), a.bias = take(arena, Op);
  a.dy = take(arena, rows * Op), a.dw = take(arena, Ip * Op);
  return a;
}

PUBLIC long raona_affine_floats(long rows, int I, int O) {
  Arena arena = {0, 0};
  cut_affine(&arena, rows, I, O);
  return arena.used;
}

PUBLIC int raona_affine(long rows, int I, int O, const float *x, const float *w, const float *bias, float *y,
                        float *workspace, long floats) {
  Arena arena = {workspace, 0};
  Affine a = cut_affine(&arena, rows, I, O);
  if (arena.used > floats) return SMALL_WORKSPACE;
  int Ip = up(I, PANEL), Op = up(O, PANEL);
  pack_matrix(plain(I, Ip), plain(O, Op), 1, w, a.panels);
  if (bias) pack_vector(plain(O, Op), 1, bias, a.bias);
  else fill_zero(a.bias, Op);
  affine(rows, O, I, x, I, a.panels, (long)Ip * PANEL, a.bias, y, O);
  return FINE;
}

/* dx (rows, I) or 0, dw (I, O), dbias (O) or 0 */
PUBLIC int raona_affine_backward(long rows, int I, int O, const float *dy, const float *x, const float *w, float *dx,
                                 float *dw, float *dbias, float *workspace, long floats) {
  Arena arena = {workspace, 0};
  Affine a = cut_affine(&arena, rows, I, O);
  if (arena.used > floats) return SMALL_WORKSPACE;
  int Ip = up(I, PANEL), Op = up(O, PANEL);
  pack_rows(rows, O, Op, dy, a.dy);
  fill_zero(a.dw, (long)Ip * Op), fill_zero(a.bias, Op);
  outer_added(I, Op, rows, x, I, a.dy, Op, a.dw, Op);
  copy_rows(I, O, a.dw, Op, dw, O);
  if (dbias) {
    rows_added(rows, Op, a.dy, Op, a.bias);
    copy(dbias, a.bias, O);
  }
  if (dx) {
    pack_matrix(plain(I, Ip), plain(O, Op), 1, w, a.panels);
    transpose_panels(Ip, Op, a.panels, a.transposed);
    affine(rows, I, O, a.dy, Op, a.transposed, (long)Op * PANEL, 0, dx, I);
  }
  return FINE;
}
