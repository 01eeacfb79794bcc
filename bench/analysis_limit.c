/* The limit that passes over n-tuples are compared with: one loop for each query, as somebody writes it who has the columns
 * in memory and knows the machine. Bins are found in a pass of their own, which becomes vector code, and counted in four
 * copies, so that an increment does not wait for the one before it. Built by bench/analysis.py:
 *
 *     cc -O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp -shared -fPIC
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BINS = 100, UNDER = 0, OVER = BINS + 1, TRASH = BINS + 2, STRIDE = 104, COPIES = 4 };

typedef struct {
    float low, scale;
} axis;

static axis axis_of(double low, double high) {
    return (axis){(float)low, (float)(BINS / (high - low))};
}

/* 0 below the range, 1 to BINS within it, BINS + 1 above it. */
static inline int bin_of(float x, axis a) {
    float place = (x - a.low) * a.scale + 1.0f;
    place = place < 0.0f ? 0.0f : place;
    return (int)(place > (float)OVER ? (float)OVER : place);
}

static void count(const int *bins, int length, uint32_t *counters) {
    int at = 0;
    for (; at + COPIES <= length; at += COPIES)
        for (int copy = 0; copy < COPIES; copy++) counters[copy * STRIDE + bins[at + copy]]++;
    for (; at < length; at++) counters[bins[at]]++;
}

static void add(const uint32_t *counters, double *out) {
#pragma omp critical
    for (int bin = 0; bin < COPIES * STRIDE; bin++) out[bin % STRIDE] += counters[bin];
}

#define BLOCKS(rows) (((rows) + BLOCK - 1) / BLOCK)
#define LENGTH(rows, block) ((rows) - (block)*BLOCK < BLOCK ? (int)((rows) - (block)*BLOCK) : BLOCK)

/* A histogram of `bin`, an expression of `i`, the row. */
#define HISTOGRAM(bin)                                                       \
    _Pragma("omp parallel num_threads(threads)") {                          \
        uint32_t counters[COPIES * STRIDE];                                 \
        int bins[BLOCK];                                                    \
        memset(counters, 0, sizeof counters);                               \
        _Pragma("omp for schedule(static)") for (int64_t block = 0; block < BLOCKS(rows); block++) { \
            int64_t start = block * BLOCK;                                  \
            int length = LENGTH(rows, block);                               \
            for (int k = 0; k < length; k++) {                              \
                int64_t i = start + k;                                      \
                bins[k] = (bin);                                            \
            }                                                               \
            count(bins, length, counters);                                  \
        }                                                                   \
        add(counters, out);                                                 \
    }

void f1(const float *px, int64_t rows, double *out, int threads) {
    axis a = axis_of(-50, 50);
    HISTOGRAM(bin_of(px[i], a))
}

void f2(const float *px, const float *eta, const float *q, int64_t rows, double *out, int threads) {
    axis a = axis_of(-50, 50);
    HISTOGRAM((fabsf(eta[i]) < 2.4f) & (q[i] > 0.0f) ? bin_of(px[i], a) : TRASH)
}

void f3(const float *px, const float *py, const float *eta, const float *q, int64_t rows, double *out, int threads) {
    axis a = axis_of(0, 100);
    HISTOGRAM((fabsf(eta[i]) < 2.4f) & (q[i] > 0.0f) ? bin_of(sqrtf(px[i] * px[i] + py[i] * py[i]), a) : TRASH)
}

/* Two dimensions: STRIDE * STRIDE bins. */
void f4(const float *px, const float *py, const float *eta, int64_t rows, double *out, int threads) {
    axis a = axis_of(-50, 50);
#pragma omp parallel num_threads(threads)
    {
        uint32_t *counters = calloc((size_t)STRIDE * STRIDE, sizeof *counters);
        int bins[BLOCK];
#pragma omp for schedule(static)
        for (int64_t block = 0; block < BLOCKS(rows); block++) {
            int64_t start = block * BLOCK;
            int length = LENGTH(rows, block);
            for (int k = 0; k < length; k++) {
                int64_t i = start + k;
                int bin = bin_of(px[i], a) * STRIDE + bin_of(py[i], a);
                bins[k] = fabsf(eta[i]) < 2.4f ? bin : TRASH * STRIDE;
            }
            for (int k = 0; k < length; k++) counters[bins[k]]++;
        }
#pragma omp critical
        for (int bin = 0; bin < STRIDE * STRIDE; bin++) out[bin] += counters[bin];
        free(counters);
    }
}

/* A profile: for each bin how many, the sum, and the sum of squares. */
void f5(const float *eta, const float *e, int64_t rows, double *out, int threads) {
    axis a = axis_of(-4, 4);
#pragma omp parallel num_threads(threads)
    {
        double sums[STRIDE][4];
        int bins[BLOCK];
        memset(sums, 0, sizeof sums);
#pragma omp for schedule(static)
        for (int64_t block = 0; block < BLOCKS(rows); block++) {
            int64_t start = block * BLOCK;
            int length = LENGTH(rows, block);
            for (int k = 0; k < length; k++) bins[k] = bin_of(eta[start + k], a);
            for (int k = 0; k < length; k++) {
                double value = e[start + k], *sum = sums[bins[k]];
                sum[0] += 1;
                sum[1] += value;
                sum[2] += value * value;
            }
        }
#pragma omp critical
        for (int bin = 0; bin < STRIDE; bin++)
            for (int k = 0; k < 3; k++) out[bin * 3 + k] += sums[bin][k];
    }
}

/* Ten histograms under one cut. */
void f6(const float *const *columns, const double *lows, const double *highs, const float *eta, int64_t rows, double *out,
        int threads) {
#pragma omp parallel num_threads(threads)
    {
        uint32_t *counters = calloc((size_t)10 * COPIES * STRIDE, sizeof *counters);
        int bins[BLOCK];
#pragma omp for schedule(static)
        for (int64_t block = 0; block < BLOCKS(rows); block++) {
            int64_t start = block * BLOCK;
            int length = LENGTH(rows, block);
            for (int one = 0; one < 10; one++) {
                axis a = axis_of(lows[one], highs[one]);
                const float *x = columns[one] + start;
                for (int k = 0; k < length; k++) bins[k] = fabsf(eta[start + k]) < 2.4f ? bin_of(x[k], a) : TRASH;
                count(bins, length, counters + (size_t)one * COPIES * STRIDE);
            }
        }
        for (int one = 0; one < 10; one++) add(counters + (size_t)one * COPIES * STRIDE, out + (size_t)one * STRIDE);
        free(counters);
    }
}
