// One step of a decoder: rows of tokens in, logits out. PyTorch is the definition; this reads the same weights once.
//
// A row is one token: its id, the slot it belongs to, its place there. Rows may be the next tokens of many texts or
// many tokens of one prompt: keys and values of all rows are stored first, then each row attends to the places of its
// slot up to its own. So one function reads prompts, goes on with one text, and with many at once.
//
// Matrices lie in blocks of 16 outputs, so that one register holds a number of each output and nothing is summed
// across lanes (pack.py says how). int8 and int4 have a scale for every 32 numbers of an output, and multiply
// activations that were rounded to int8, with a scale for every 32, too. float32 and bfloat16 multiply float32.
//
// REGARD_PATH: 2 AVX-512 with VNNI, 1 AVX2, 0 any processor.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#if REGARD_PATH > 0
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

// ── lanes: as many floats as a register holds, by the vector types of GCC and Clang

#if REGARD_PATH == 2
constexpr int W = 16;
#elif REGARD_PATH == 1
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
constexpr int ROWS = 16;           // outputs in a block of a matrix
constexpr int PARTS = ROWS / W;    // registers that hold a number of each of them
constexpr int GROUP = 32;          // numbers with one scale

// Loops over rows and registers are unrolled where there are registers enough, so that sums stay in them.
#if REGARD_PATH == 2
#define UNROLL _Pragma("GCC unroll 16")
constexpr int TILE = 8;  // rows at once
#else
#define UNROLL
constexpr int TILE = 4;
#endif

typedef float floats __attribute__((vector_size(4 * W)));
typedef int32_t ints __attribute__((vector_size(4 * W)));
typedef uint8_t bytes __attribute__((vector_size(4 * W)));
typedef int8_t small __attribute__((vector_size(W)));
typedef uint16_t halves __attribute__((vector_size(2 * W)));

template <class V> static inline V load(const void* from) {
    V found;
    memcpy(&found, from, sizeof(V));
    return found;
}
template <class V> static inline void store(void* to, V what) { memcpy(to, &what, sizeof(V)); }
static inline floats all(float x) { return x - floats{}; }
static inline ints all(int32_t x) { return x - ints{}; }
static inline floats larger(floats a, floats b) { return a > b ? a : b; }
static inline floats smaller(floats a, floats b) { return a < b ? a : b; }

static inline float total(floats x) {
#if REGARD_PATH == 2
    return _mm512_reduce_add_ps((__m512)x);
#else
    float sum = 0;
    for (int i = 0; i < W / 2; i++) sum += x[i] + x[i + W / 2];
    return sum;
#endif
}
static inline float largest(floats x) {
#if REGARD_PATH == 2
    return _mm512_reduce_max_ps((__m512)x);
#else
    float most = x[0];
    for (int i = 1; i < W; i++) most = std::max(most, x[i]);
    return most;
#endif
}

// float16, without infinities: scales, and the cache of quantised models
static inline floats widen(halves x) {
#if REGARD_PATH == 2
    return (floats)_mm512_cvtph_ps((__m256i)x);
#elif REGARD_PATH == 1
    return (floats)_mm256_cvtph_ps((__m128i)x);
#else
    ints bits = __builtin_convertvector(x, ints);
    floats size = (floats)((bits & 0x7fff) << 13) * 0x1p112f;  // exponents of float32 are larger by 112
    return (floats)((ints)size | ((bits & 0x8000) << 16));
#endif
}
static inline uint16_t to_half(float x) {
    float size = std::min(std::fabs(x), 65504.0f);
    uint32_t sign = std::signbit(x) ? 0x8000 : 0, bits;
    if (size < 0x1p-14f) return sign | uint32_t(std::nearbyint(size * 0x1p24f));  // denormal
    memcpy(&bits, &size, 4);
    bits += 0xfff + ((bits >> 13) & 1);  // to the nearest, ties to even
    return sign | std::min((bits >> 13) - (112u << 10), 0x7bffu);
}

// exp to two units of the last place
static inline floats exponential(floats x) {
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    floats scaled = x * 1.44269504f;
    ints whole = __builtin_convertvector(scaled + (scaled < 0 ? all(-0.5f) : all(0.5f)), ints);
    floats n = __builtin_convertvector(whole, floats);
    floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    floats y = all(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * (floats)((whole + 127) << 23);
}
static inline floats tangent(floats x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }  // tanh
static inline floats error_function(floats x) {  // Abramowitz and Stegun 7.1.26: to 1.5e-7
    floats size = x < 0 ? -x : x;
    floats t = 1.0f / (1.0f + 0.3275911f * size);
    floats y = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    floats found = 1.0f - y * exponential(-size * size);
    return x < 0 ? -found : found;
}

enum Activation { RELU, LEAKY, GELU, GELU_TANH, RELU2, SWIGLU };
static inline floats activate(int kind, floats x, floats gate) {
    switch (kind) {
    case RELU: return larger(x, floats{});
    case LEAKY: return x < 0 ? 0.01f * x : x;
    case GELU: return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    case GELU_TANH: return 0.5f * x * (1.0f + tangent(0.79788456f * (x + 0.044715f * x * x * x)));
    case RELU2: return larger(x, floats{}) * larger(x, floats{});
    default: return gate / (1.0f + exponential(-gate)) * x;
    }
}

// ── what Python describes (library.py has the same structures)

enum Kind { FLOAT32, BFLOAT16, INT8, INT4, INT4_MIN };  // INT4_MIN: scale·q + minimum, as Q4_1; INT4: scale·(q − 8)
enum Placement { PRE, POST, PARALLEL };

extern "C" {
struct Matrix {
    const uint8_t* data;
    const float* offset;  // one for each output, or null
    int32_t kind, rows, columns, spare;
};
struct Norm {
    const float *scale, *shift;
    int32_t kind;  // 0 none, 1 RMSNorm, 2 LayerNorm
    float eps;
};
struct Block {
    Norm attention, mlp, query, key;
    Matrix to_q, to_k, to_v, mix, gate, up, down;
};
struct Model {
    int32_t depth, dim, heads, kv_heads, channels, hidden, vocab, turned;
    int32_t window, activation, placement, ngrams, slots, capacity, half_cache, threads;
    float scale, alpha, embedding_scale, softcap;
    Norm entrance, final;
    Matrix embedding, head;
    const Matrix* tables;  // of n-grams
    const Block* blocks;
    const float *codes, *cosines, *sines, *bias;  // place dim · place turned/2 · head distance; null: none
    // float32 or float16. values: depth slots kv_heads capacity wide; keys: depth slots kv_heads capacity/16 wide 16, so
    // that a register holds one channel of several keys. capacity is a multiple of 16, wide: channels up to one
    uint8_t *keys, *values;
};
}

static inline int up_to(int n, int unit) { return (n + unit - 1) / unit * unit; }
static inline int groups_of(const Matrix& m) { return (m.columns + GROUP - 1) / GROUP; }
static inline int blocks_of(const Matrix& m) { return (m.rows + ROWS - 1) / ROWS; }
static inline size_t scales_size(const Matrix& m) { return up_to(groups_of(m) * ROWS * 2, 64); }
static inline size_t block_size(const Matrix& m) {
    switch (m.kind) {
    case FLOAT32: return size_t(m.columns) * ROWS * 4;
    case BFLOAT16: return size_t(up_to(m.columns, 2)) * ROWS * 2;
    case INT8: return scales_size(m) + size_t(groups_of(m)) * GROUP * ROWS;
    default: return scales_size(m) * (m.kind == INT4_MIN ? 2 : 1) + size_t(groups_of(m)) * GROUP * ROWS / 2;
    }
}

// ── products

struct Input {  // rows that a matrix is multiplied with: float32, and rounded to int8 for quantised matrices
    std::vector<float> x, scale;
    std::vector<int8_t> q;
    std::vector<int32_t> sum;  // of the q in a group
    int stride = 0;
    void resize(int rows, int width) {
        stride = up_to(width, GROUP);
        size_t need = size_t(rows) * stride;
        if (x.size() >= need) return;
        x.resize(need), q.resize(need), scale.resize(need / GROUP), sum.resize(need / GROUP);
    }
    float* row(int i) { return x.data() + size_t(i) * stride; }
    void round(int i, int width) {
        float* from = row(i);
        for (int k = width; k < stride; k++) from[k] = 0;
        for (int g = 0; g < up_to(width, GROUP) / GROUP; g++) {
            const float* part = from + g * GROUP;
            floats most{};
            for (int k = 0; k < GROUP; k += W) {
                floats v = load<floats>(part + k);
                most = larger(most, v < 0 ? -v : v);
            }
            size_t at = (size_t(i) * stride) / GROUP + g;
            float peak = largest(most), inverse = peak > 0 ? 127.0f / peak : 0.0f;
            ints sums{};
            for (int k = 0; k < GROUP; k += W) {
                floats v = load<floats>(part + k) * inverse;
                ints whole = __builtin_convertvector(v + (v < 0 ? all(-0.5f) : all(0.5f)), ints);
                sums += whole;
                store(q.data() + size_t(i) * stride + g * GROUP + k, __builtin_convertvector(whole, small));
            }
            int32_t together = 0;
            for (int k = 0; k < W; k++) together += sums[k];
            scale[at] = peak / 127.0f, sum[at] = together;
        }
    }
};

// Four products of bytes in each lane, added: weights from 0 on, activations signed.
template <int KIND> static inline ints add_products(ints sum, bytes w, const int8_t* activations) {
    int32_t four;
    memcpy(&four, activations, 4);
#if REGARD_PATH == 2
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, (__m512i)all(four));
#elif REGARD_PATH == 1
    __m256i a = (__m256i)all(four), v = (__m256i)w;
    if (KIND == INT8) {  // two products of 255·127 would not fit into 16 bits: |w| ≤ 128 and the sign at a
        v = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
        a = _mm256_sign_epi8(a, v), v = _mm256_abs_epi8(v);
    }
    return sum + (ints)_mm256_madd_epi16(_mm256_maddubs_epi16(v, a), _mm256_set1_epi16(1));
#else
    for (int lane = 0; lane < W; lane++)
        for (int i = 0; i < 4; i++) sum[lane] += int32_t(w[4 * lane + i]) * activations[i];
    return sum;
#endif
}
// What the sum of a group starts with, so that weights count from −128 or −8 on.
template <int KIND> static inline ints start(int32_t sum) {
    if (KIND == INT4_MIN || (KIND == INT8 && REGARD_PATH == 1)) return ints{};
    return all(int32_t(-(KIND == INT8 ? 128 : 8) * sum));
}

template <int T> static inline void write_out(const floats (&sum)[T][PARTS], float (*out)[ROWS]) {
    UNROLL for (int t = 0; t < T; t++) {
        UNROLL for (int p = 0; p < PARTS; p++) store(out[t] + p * W, sum[t][p]);
    }
}
constexpr int AHEAD = 8192;  // bytes: while some rows are multiplied, memory already brings what comes later
// 16 outputs of T rows of the input, each of them by one thread and in one order: results do not depend on threads.
template <int T> static void block_float32(const Matrix& m, const uint8_t* data, Input& in, int row, float (*out)[ROWS]) {
    const float* w = (const float*)data;
    const float* x[T];
    for (int t = 0; t < T; t++) x[t] = in.row(row + t);
    floats sum[T][PARTS] = {};
    for (int k = 0; k < m.columns; k++) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            floats here = load<floats>(w + size_t(k) * ROWS + p * W);
            if (p == 0) __builtin_prefetch(data + size_t(k) * ROWS * 4 + AHEAD);
            UNROLL for (int t = 0; t < T; t++) sum[t][p] += here * x[t][k];
        }
    }
    write_out<T>(sum, out);
}
template <int T> static void block_bfloat16(const Matrix& m, const uint8_t* data, Input& in, int row, float (*out)[ROWS]) {
    const float* x[T];
    for (int t = 0; t < T; t++) x[t] = in.row(row + t);
    floats sum[T][PARTS] = {};
    for (int k = 0; k < up_to(m.columns, 2); k += 2) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            ints pair = load<ints>(data + (size_t(k) * ROWS + p * 2 * W) * 2);
            if (p == 0) __builtin_prefetch(data + size_t(k) * ROWS * 2 + AHEAD);
            floats even = (floats)(pair << 16), odd = (floats)(pair & int32_t(0xffff0000));
            UNROLL for (int t = 0; t < T; t++) sum[t][p] += even * x[t][k];
            UNROLL for (int t = 0; t < T; t++) sum[t][p] += odd * x[t][k + 1];
        }
    }
    write_out<T>(sum, out);
}
template <int T, int KIND>
static void block_whole(const Matrix& m, const uint8_t* data, Input& in, int row, float (*out)[ROWS]) {
    constexpr int SIZE = KIND == INT8 ? GROUP * ROWS : GROUP * ROWS / 2;
    const uint16_t* scales = (const uint16_t*)data;
    const uint16_t* minima = (const uint16_t*)(data + scales_size(m));
    const uint8_t* w = data + scales_size(m) * (KIND == INT4_MIN ? 2 : 1);
    const int8_t* q[T];
    const float* scale[T];
    const int32_t* sums[T];
    for (int t = 0; t < T; t++) {
        size_t at = size_t(row + t) * in.stride;
        q[t] = in.q.data() + at, scale[t] = in.scale.data() + at / GROUP, sums[t] = in.sum.data() + at / GROUP;
    }
    floats sum[T][PARTS] = {};
    int groups = groups_of(m);
    for (int g = 0; g < groups; g++) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            bytes here[8];
            const uint8_t* from = w + size_t(g) * SIZE + p * 4 * W;
            if (p == 0) {
                UNROLL for (int line = 0; line < SIZE / 64; line++) __builtin_prefetch(from + AHEAD + line * 64);
            }
            if (KIND == INT8) {
                UNROLL for (int j = 0; j < 8; j++) here[j] = load<bytes>(from + j * 4 * ROWS);
            } else {
                UNROLL for (int j = 0; j < 4; j++) {
                    ints two = load<ints>(from + j * 4 * ROWS);
                    here[j] = (bytes)(two & 0x0f0f0f0f), here[j + 4] = (bytes)((two >> 4) & 0x0f0f0f0f);
                }
            }
            floats of_weights = widen(load<halves>(scales + g * ROWS + p * W));
            UNROLL for (int t = 0; t < T; t++) {
                ints dot = start<KIND>(sums[t][g]);
                UNROLL for (int j = 0; j < 8; j++) dot = add_products<KIND>(dot, here[j], q[t] + g * GROUP + 4 * j);
                sum[t][p] += __builtin_convertvector(dot, floats) * (of_weights * scale[t][g]);
                if (KIND == INT4_MIN) {
                    floats least = widen(load<halves>(minima + g * ROWS + p * W));
                    sum[t][p] += least * (scale[t][g] * float(sums[t][g]));
                }
            }
        }
    }
    write_out<T>(sum, out);
}
template <int T> static void block_times(const Matrix& m, const uint8_t* data, Input& in, int row, float (*out)[ROWS]) {
    switch (m.kind) {
    case FLOAT32: return block_float32<T>(m, data, in, row, out);
    case BFLOAT16: return block_bfloat16<T>(m, data, in, row, out);
    case INT8: return block_whole<T, INT8>(m, data, in, row, out);
    case INT4: return block_whole<T, INT4>(m, data, in, row, out);
    default: return block_whole<T, INT4_MIN>(m, data, in, row, out);
    }
}

// One output of a matrix as it was before it was packed: the vector of a token.
static void unpack_row(const Matrix& m, int row, float* out) {
    const uint8_t* data = m.data + size_t(row / ROWS) * block_size(m);
    int lane = row % ROWS;
    for (int k = 0; k < m.columns; k++) {
        int g = k / GROUP, j = k % GROUP / 4, i = k % 4;
        if (m.kind == FLOAT32) {
            out[k] = ((const float*)data)[size_t(k) * ROWS + lane];
        } else if (m.kind == BFLOAT16) {
            uint32_t bits = uint32_t(((const uint16_t*)data)[(size_t(k / 2) * ROWS + lane) * 2 + k % 2]) << 16;
            memcpy(out + k, &bits, 4);
        } else {
            uint16_t bits[W] = {((const uint16_t*)data)[g * ROWS + lane]};
            float scale = widen(load<halves>(bits))[0];
            const uint8_t* w = data + scales_size(m) * (m.kind == INT4_MIN ? 2 : 1);
            if (m.kind == INT8) {
                out[k] = scale * (int(w[size_t(g) * GROUP * ROWS + (j * ROWS + lane) * 4 + i]) - 128);
            } else {
                int both = w[size_t(g) * GROUP * ROWS / 2 + (j % 4 * ROWS + lane) * 4 + i];
                int q = j < 4 ? both & 15 : both >> 4;
                bits[0] = ((const uint16_t*)(data + scales_size(m)))[g * ROWS + lane];
                out[k] = m.kind == INT4 ? scale * (q - 8) : scale * q + widen(load<halves>(bits))[0];
            }
        }
    }
}

static void normalise(const Norm& norm, const float* x, float* out, int width) {
    if (norm.kind == 0) {
        if (out != x) memcpy(out, x, size_t(width) * 4);
        return;
    }
    double mean = 0, square = 0;
    if (norm.kind == 2) {
        for (int k = 0; k < width; k++) mean += x[k];
        mean /= width;
    }
    int k = 0;
    floats sums{};
    for (; k + W <= width; k += W) {
        floats v = load<floats>(x + k) - float(mean);
        sums += v * v;
    }
    square = total(sums);
    for (; k < width; k++) square += (x[k] - mean) * (x[k] - mean);
    float by = 1.0f / std::sqrt(float(square / width) + norm.eps), middle = float(mean);
    if (norm.kind == 2)
        for (k = 0; k < width; k++) out[k] = (x[k] - middle) * by * norm.scale[k] + norm.shift[k];
    else
        for (k = 0; k < width; k++) out[k] = x[k] * by * norm.scale[k];
}

// ── threads: they take pieces of work from one counter, and meet between the parts of a step

struct Team {
    int size;
    std::atomic<int> arrived{0}, turn{0}, next{0};
    explicit Team(int size) : size(size) {}

    // A short while awake, then asleep: a machine that is shared is not kept busy by waiting.
    static void wait(std::atomic<int>& what, int old) {
        for (int i = 0; i < 200; i++) {
            if (what.load(std::memory_order_acquire) != old) return;
#if REGARD_PATH > 0
            _mm_pause();
#endif
        }
        auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
        while (std::chrono::steady_clock::now() < until) {
            if (what.load(std::memory_order_acquire) != old) return;
            std::this_thread::yield();
        }
        while (what.load(std::memory_order_acquire) == old) what.wait(old, std::memory_order_acquire);
    }
    // All are here; the last one does what one thread has to do alone.
    template <class F> void meet(F alone) {
        int now = turn.load(std::memory_order_relaxed);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < size) return wait(turn, now);
        alone();
        arrived.store(0, std::memory_order_relaxed), next.store(0, std::memory_order_relaxed);
        turn.store(now + 1, std::memory_order_release);
        if (size > 1) turn.notify_all();
    }
    void meet() { meet([] {}); }
    template <class F> void share(int count, int piece, F work) {
        for (int i; (i = next.fetch_add(piece, std::memory_order_relaxed)) < count;)
            for (int j = i; j < std::min(i + piece, count); j++) work(j);
    }
};

// ── the step

constexpr int MOST = 128;         // rows at once
constexpr int ALONE = 8192;       // numbers of an input that each thread makes for itself rather than wait for others
constexpr int SERIAL = 4;         // rows whose keys one thread stores while the others wait

struct Rows {  // what is read at once
    int count;
    const int32_t *tokens, *slots, *places, *before, *wanted;  // wanted: rows of which logits are asked for
    int wants;
    float* logits;
};
struct Output {  // where a product goes
    const Matrix* matrix;
    float* to;
    size_t stride;
    enum { STORE, ADD, LOGITS } how;
    const float* beside;  // added, too
};

struct Decoder {
    Model m;
    Team team;
    std::vector<std::thread> threads;
    std::atomic<int> job{0};
    bool over = false;
    Rows rows{};
    int wide, stride, of_q, of_k;
    Input shared;
    std::vector<Input> own;
    std::vector<std::vector<float>> scores;
    std::vector<float> x, q, k, v, mixed, up, gate, branch;

    explicit Decoder(const Model& model) : m(model), team(std::max(1, model.threads)) {
        wide = up_to(m.channels, 16), stride = up_to(m.dim, GROUP);
        of_q = up_to(m.heads * m.channels, GROUP), of_k = up_to(m.kv_heads * m.channels, GROUP);
        int hidden = up_to(m.hidden, GROUP);
        x.resize(MOST * stride), branch.resize(MOST * stride), q.resize(MOST * of_q), mixed.resize(MOST * of_q);
        k.resize(MOST * of_k), v.resize(MOST * of_k), up.resize(MOST * hidden), gate.resize(MOST * hidden);
        own.resize(team.size), scores.resize(team.size);
        for (int i = 1; i < team.size; i++)
            threads.emplace_back([this, i] {
                for (int last = 0;;) {
                    Team::wait(job, last);
                    last = job.load(std::memory_order_acquire);
                    if (over) return;
                    step(i);
                }
            });
    }
    ~Decoder() {
        over = true;
        job.fetch_add(1, std::memory_order_release);
        job.notify_all();
        for (auto& each : threads) each.join();
    }
    void run(const Rows& given) {
        rows = given;
        job.fetch_add(1, std::memory_order_release);
        job.notify_all();
        step(0);
    }

    // Rows of an input, as `fill` writes them: by each thread for itself if they are few, else shared out.
    template <class F> Input& prepare(int me, int count, int width, bool whole, F fill) {
        bool alone = team.size == 1 || count * width <= ALONE;
        Input& in = alone ? own[me] : shared;
        if (alone) {
            in.resize(count, width);
            for (int i = 0; i < count; i++) {
                fill(i, in.row(i));
                if (whole) in.round(i, width);
                else if (width % 2) in.row(i)[width] = 0;
            }
            return in;
        }
        team.meet([&] { in.resize(count, width); });
        team.share(count, 4, [&](int i) {
            fill(i, in.row(i));
            if (whole) in.round(i, width);
            else if (width % 2) in.row(i)[width] = 0;
        });
        team.meet();
        return in;
    }
    static bool is_whole(const Matrix& matrix) { return matrix.kind >= INT8; }

    // Products of one input with several matrices; everybody meets afterwards.
    template <int N, class F> void multiply(int count, Input& in, const Output (&outputs)[N], F alone) {
        int blocks = 0;
        for (const Output& each : outputs) blocks += blocks_of(*each.matrix);
        int piece = std::max(1, blocks / (team.size * 8));
        team.share(blocks, piece, [&](int i) {
            const Output* out = outputs;
            while (i >= blocks_of(*out->matrix)) i -= blocks_of(*out++->matrix);
            const uint8_t* data = out->matrix->data + size_t(i) * block_size(*out->matrix);
            float found[TILE][ROWS];
            for (int row = 0; row < count;) {
                int left = count - row, taken = left >= TILE ? TILE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
                if (taken == TILE) block_times<TILE>(*out->matrix, data, in, row, found);
                else if (taken == 4) block_times<4>(*out->matrix, data, in, row, found);
                else if (taken == 2) block_times<2>(*out->matrix, data, in, row, found);
                else block_times<1>(*out->matrix, data, in, row, found);
                for (int t = 0; t < taken; t++) put(*out, row + t, i * ROWS, found[t]);
                row += taken;
            }
        });
        team.meet(alone);
    }
    void put(const Output& out, int row, int first, const float* found) {
        float* to = out.to + row * out.stride + first;
        for (int i = 0; i < ROWS; i += W) {
            floats y = load<floats>(found + i);
            if (out.matrix->offset) y += load<floats>(out.matrix->offset + first + i);
            if (out.how == Output::ADD) y += load<floats>(to + i) * m.alpha;
            if (out.beside) y += load<floats>(out.beside + row * out.stride + first + i);
            if (out.how != Output::LOGITS) {
                store(to + i, y);
                continue;
            }
            if (m.softcap > 0) y = m.softcap * tangent(y * (1.0f / m.softcap));
            int left = std::min(W, out.matrix->rows - first - i);
            if (left > 0) memcpy(to + i, &y, size_t(left) * 4);
        }
    }

    // Vectors of tokens, of the n-grams that end there, and of places.
    void embed(int row, float* vector) {
        int width = m.embedding.columns;
        float* found = x.data() + size_t(row) * stride;
        std::fill(found, found + stride, 0.0f);
        unpack_row(m.embedding, rows.tokens[row], found);
        for (int i = 0; i < width; i++) found[i] *= m.embedding_scale;
        const int32_t* before = rows.before + size_t(row) * m.ngrams;
        int64_t id = rows.tokens[row], own = id, shorter = m.vocab;
        uint64_t mixed = uint64_t(id) + 1;
        auto shifted = [](uint64_t n) { return n ^ uint64_t(int64_t(n) >> 15); };
        for (int i = 0; i < m.ngrams; i++) {  // as NGrams.rows
            int64_t size = m.tables[i].rows;
            own += before[i] * shorter;
            mixed = shifted(mixed) * 0x2C1B3C6Dull + uint64_t(before[i] + 1) * 0x3C6EF372ull;
            shorter *= m.vocab + 1;
            int64_t rest = int64_t(shifted(mixed)) % size;
            unpack_row(m.tables[i], int(size == shorter ? own : rest < 0 ? rest + size : rest), vector);
            for (int c = 0; c < width; c++) found[c] += vector[c];
        }
        if (m.codes)
            for (int c = 0; c < m.dim; c++) found[c] += m.codes[size_t(rows.places[row]) * m.dim + c];
        normalise(m.entrance, found, found, m.dim);
    }
    // Queries and keys: normalised, then pairs of channels turned by their place.
    void turn(const Norm& norm, int place, const float* from, float* to) {
        normalise(norm, from, to, m.channels);
        int pairs = m.turned / 2;
        const float *cosine = m.cosines + size_t(place) * pairs, *sine = m.sines + size_t(place) * pairs;
        for (int i = 0; i < pairs; i++) {
            float a = to[i], b = to[i + pairs];
            to[i] = a * cosine[i] - b * sine[i], to[i + pairs] = b * cosine[i] + a * sine[i];
        }
        for (int i = m.channels; i < wide; i++) to[i] = 0;
    }
    size_t past(int layer, int slot, int head) {
        size_t number = (size_t(layer) * m.slots + slot) * m.kv_heads + head;
        return number * m.capacity * wide * (m.half_cache ? 2 : 4);
    }
    void keep(uint8_t* to, size_t at, int step, const float* from) {
        for (int c = 0; c < wide; c++) {
            if (m.half_cache) ((uint16_t*)to)[at + size_t(c) * step] = to_half(from[c]);
            else ((float*)to)[at + size_t(c) * step] = from[c];
        }
    }
    void remember(const Block& block, int layer, int row, int head) {
        alignas(64) float turned[1024];
        size_t at = past(layer, rows.slots[row], head);
        turn(block.key, rows.places[row], k.data() + size_t(row) * of_k + head * m.channels, turned);
        int place = rows.places[row];
        keep(m.keys + at, size_t(place / ROWS) * ROWS * wide + place % ROWS, ROWS, turned);
        memcpy(turned, v.data() + size_t(row) * of_k + head * m.channels, size_t(m.channels) * 4);  // (zeros follow)
        keep(m.values + at, size_t(place) * wide, 1, turned);
    }
    template <class Stored> static inline floats lanes(const Stored* from);

    // softmax over the places up to this one, within the window, of (q·k·scale + bias), times v
    template <class Stored> void attend(const Block& block, int layer, int row, int head, std::vector<float>& room) {
        int place = rows.places[row], first = m.window ? std::max(0, place - m.window + 1) : 0;
        int begin = first / ROWS * ROWS, end = up_to(place + 1, ROWS), count = place + 1;
        if (int(room.size()) < m.capacity) room.resize(m.capacity);
        alignas(64) float query[1024], sum[1024];
        turn(block.query, place, q.data() + size_t(row) * of_q + head * m.channels, query);
        size_t at = past(layer, rows.slots[row], head / (m.heads / m.kv_heads));
        const Stored *keys = (const Stored*)(m.keys + at), *values = (const Stored*)(m.values + at);
        float* weights = room.data();
        const float* bias = m.bias ? m.bias + size_t(head) * m.capacity : nullptr;
        for (int j = begin; j < end; j += ROWS) {
            UNROLL for (int p = 0; p < PARTS; p++) {
                floats dot[4] = {};  // several sums: each would wait for itself
                const Stored* key = keys + size_t(j) * wide + p * W;
                for (int c = 0; c < wide; c += 4) {
                    UNROLL for (int i = 0; i < 4; i++) dot[i] += lanes(key + size_t(c + i) * ROWS) * query[c + i];
                }
                store(weights + j + p * W, (dot[0] + dot[1] + dot[2] + dot[3]) * m.scale);
            }
            for (int i = std::max(j, first); bias && i < std::min(end, j + ROWS) && i < count; i++)
                weights[i] += bias[place - i];
        }
        for (int j = begin; j < first; j++) weights[j] = -INFINITY;
        for (int j = count; j < end; j++) weights[j] = -INFINITY;
        floats high = all(-INFINITY);
        for (int j = begin; j < end; j += W) high = larger(high, load<floats>(weights + j));
        float most = largest(high);
        floats sums{};
        for (int j = begin; j < end; j += W) {
            floats score = load<floats>(weights + j) - most;
            floats weight = score < -87.0f ? floats{} : exponential(score);
            sums += weight;
            store(weights + j, weight);
        }
        float by = 1.0f / total(sums);
        constexpr int AT_ONCE = 4;  // registers of channels
        for (int c = 0; c < wide; c += AT_ONCE * W) {
            floats part[AT_ONCE] = {};
            int parts = std::min(AT_ONCE, (wide - c) / W);
            if (parts == AT_ONCE) {
                floats other[AT_ONCE] = {};
                int j = first;
                for (; j + 1 < count; j += 2) {
                    const Stored* value = values + size_t(j) * wide + c;
                    UNROLL for (int i = 0; i < AT_ONCE; i++) {
                        part[i] += weights[j] * lanes(value + i * W);
                        other[i] += weights[j + 1] * lanes(value + wide + i * W);
                    }
                }
                UNROLL for (int i = 0; i < AT_ONCE; i++) {
                    if (j < count) part[i] += weights[j] * lanes(values + size_t(j) * wide + c + i * W);
                    part[i] += other[i];
                }
            } else {
                for (int j = first; j < count; j++)
                    for (int i = 0; i < parts; i++) part[i] += weights[j] * lanes(values + size_t(j) * wide + c + i * W);
            }
            for (int i = 0; i < parts; i++) store(sum + c + i * W, part[i] * by);
        }
        memcpy(mixed.data() + size_t(row) * of_q + head * m.channels, sum, size_t(m.channels) * 4);
    }

    void step(int me) {
        int count = rows.count, wants = rows.wants;  // (`rows` is the next step's once the last part is over)
        auto stream = [&](int i) { return x.data() + size_t(i) * stride; };
        own[me].resize(1, std::max(m.dim, m.hidden));
        team.share(count, 1, [&](int i) { embed(i, own[me].row(0)); });
        team.meet();
        for (int layer = 0; layer < m.depth; layer++) {
            const Block& b = m.blocks[layer];
            bool after = m.placement == POST;
            Norm none{};
            bool whole = is_whole(b.to_q) || is_whole(b.to_k) || is_whole(b.to_v);
            Input& read = prepare(me, count, m.dim, whole, [&](int i, float* to) {
                normalise(after ? none : b.attention, stream(i), to, m.dim);
            });
            Output qkv[] = {{&b.to_q, q.data(), size_t(of_q), Output::STORE, nullptr},
                            {&b.to_k, k.data(), size_t(of_k), Output::STORE, nullptr},
                            {&b.to_v, v.data(), size_t(of_k), Output::STORE, nullptr}};
            multiply(count, read, qkv, [&] {
                for (int i = 0; count <= SERIAL && i < count * m.kv_heads; i++)
                    remember(b, layer, i / m.kv_heads, i % m.kv_heads);
            });
            if (count > SERIAL) {
                team.share(count * m.kv_heads, 8, [&](int i) { remember(b, layer, i / m.kv_heads, i % m.kv_heads); });
                team.meet();
            }
            team.share(count * m.heads, 1, [&](int i) {
                if (m.half_cache) attend<uint16_t>(b, layer, i / m.heads, i % m.heads, scores[me]);
                else attend<float>(b, layer, i / m.heads, i % m.heads, scores[me]);
            });
            team.meet();

            bool beside = m.placement == PARALLEL;
            int width = m.heads * m.channels;
            Input& heads = prepare(me, count, width, is_whole(b.mix), [&](int i, float* to) {
                memcpy(to, mixed.data() + size_t(i) * of_q, size_t(width) * 4);
            });
            Output mix[] = {{&b.mix, beside ? branch.data() : x.data(), size_t(stride),
                             beside ? Output::STORE : Output::ADD, nullptr}};
            multiply(count, heads, mix, [] {});
            if (after) {
                team.share(count, 1, [&](int i) { normalise(b.attention, stream(i), stream(i), m.dim); });
                team.meet();
            }

            bool gated = m.activation == SWIGLU;
            size_t hidden = up_to(m.hidden, GROUP);
            Input& seen = prepare(me, count, m.dim, is_whole(b.up) || (gated && is_whole(b.gate)), [&](int i, float* to) {
                normalise(after ? none : b.mlp, stream(i), to, m.dim);
            });
            Output ups[] = {{&b.up, up.data(), hidden, Output::STORE, nullptr}};
            Output both[] = {{&b.up, up.data(), hidden, Output::STORE, nullptr},
                             {&b.gate, gate.data(), hidden, Output::STORE, nullptr}};
            if (gated) multiply(count, seen, both, [] {});
            else multiply(count, seen, ups, [] {});
            Input& inner = prepare(me, count, m.hidden, is_whole(b.down), [&](int i, float* to) {
                const float *u = up.data() + i * hidden, *g = gate.data() + i * hidden;
                for (int c = 0; c < int(hidden); c += W)
                    store(to + c, activate(m.activation, load<floats>(u + c), load<floats>(g + c)));
            });
            Output down[] = {{&b.down, x.data(), size_t(stride), Output::ADD, beside ? branch.data() : nullptr}};
            multiply(count, inner, down, [] {});
            if (after) {
                team.share(count, 1, [&](int i) { normalise(b.mlp, stream(i), stream(i), m.dim); });
                team.meet();
            }
        }
        if (wants) {
            Input& last = prepare(me, wants, m.head.columns, is_whole(m.head), [&](int i, float* to) {
                std::vector<float>& room = scores[me];
                if (int(room.size()) < m.dim) room.resize(m.dim);
                normalise(m.final, stream(rows.wanted[i]), room.data(), m.dim);
                memcpy(to, room.data(), size_t(m.head.columns) * 4);
            });
            Output logits[] = {{&m.head, rows.logits, size_t(m.vocab), Output::LOGITS, nullptr}};
            multiply(wants, last, logits, [] {});
        }
    }
};
template <> inline floats Decoder::lanes<float>(const float* from) { return load<floats>(from); }
template <> inline floats Decoder::lanes<uint16_t>(const uint16_t* from) { return widen(load<halves>(from)); }

// ── what Python calls

extern "C" {
int regard_layout() { return int(sizeof(Model) * 10000 + sizeof(Block)); }  // so that structures cannot differ
void* regard_open(const Model* model) { return new Decoder(*model); }
void regard_close(void* decoder) { delete (Decoder*)decoder; }

// Rows of one slot follow each other, by their places. wants: 1 for rows whose logits are asked for, in their order.
void regard_read(void* decoder, int count, const int32_t* tokens, const int32_t* slots, const int32_t* places,
                 const int32_t* before, const int32_t* wants, float* logits) {
    Decoder& d = *(Decoder*)decoder;
    int32_t wanted[MOST];
    for (int first = 0; first < count; first += MOST) {
        int size = std::min(MOST, count - first), asked = 0;
        for (int i = 0; i < size; i++)
            if (wants[first + i]) wanted[asked++] = i;
        d.run({size, tokens + first, slots + first, places + first, before + size_t(first) * d.m.ngrams, wanted, asked, logits});
        logits += size_t(asked) * d.m.vocab;
    }
}

// One matrix by itself, for tests: count columns -> count rows
void regard_multiply(const Matrix* matrix, int count, const float* x, float* out) {
    Input in;
    in.resize(1, matrix->columns);
    for (int i = 0; i < count; i++) {
        std::fill(in.x.begin(), in.x.end(), 0.0f);
        memcpy(in.row(0), x + size_t(i) * matrix->columns, size_t(matrix->columns) * 4);
        if (Decoder::is_whole(*matrix)) in.round(0, matrix->columns);
        for (int block = 0; block < blocks_of(*matrix); block++) {
            float found[1][ROWS];
            block_times<1>(*matrix, matrix->data + size_t(block) * block_size(*matrix), in, 0, found);
            int left = std::min(ROWS, matrix->rows - block * ROWS);
            memcpy(out + size_t(i) * matrix->rows + block * ROWS, found[0], size_t(left) * 4);
        }
    }
}

// Memory for weights, in large pages where the system has them.
void* regard_memory(size_t size) {
    constexpr size_t PAGE = size_t(1) << 21;
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    void* found = std::aligned_alloc(PAGE, whole);
#if defined(__linux__)
    if (found) madvise(found, whole, MADV_HUGEPAGE);
#endif
    return found;
}
void regard_free(void* memory) { std::free(memory); }
}
