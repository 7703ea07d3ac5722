/* The memory bound of an all-reduce within one process: bare_all_reduce DEVICES BYTES...
 * One loop on all cores reads DEVICES buffers and writes their sum to all of them: no messages, no
 * tree. Prints one line per size: bytes, median seconds. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMostDevices = 16 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void sum_two(float* restrict a, float* restrict b, long count) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

static void sum_four(float* restrict a, float* restrict b, float* restrict c, float* restrict d, long count) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < count; ++i) a[i] = b[i] = c[i] = d[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

static void sum_any(float** buffers, int devices, long count) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < count; ++i) {
    float sum = 0;
    for (int k = 0; k < devices; ++k) sum += buffers[k][i];
    for (int k = 0; k < devices; ++k) buffers[k][i] = sum;
  }
}

static void sum_once(float** buffers, int devices, long count) {
  if (devices == 2)
    sum_two(buffers[0], buffers[1], count);
  else if (devices == 4)
    sum_four(buffers[0], buffers[1], buffers[2], buffers[3], count);
  else
    sum_any(buffers, devices, count);
}

static void touch(float* buffer, long count) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < count; ++i) buffer[i] = 0;
}

int main(int argc, char** argv) {
  const int devices = argc > 1 ? atoi(argv[1]) : 0;
  if (argc < 3 || devices < 1 || devices > kMostDevices) return 2;
  for (int i = 2; i < argc; ++i) {
    const long bytes = atol(argv[i]), count = bytes / (long)sizeof(float), worth = 2L << 30;
    const int repeats = worth / bytes > 1000 ? 1000 : worth / bytes < 7 ? 7 : (int)(worth / bytes);
    float* buffers[kMostDevices];
    for (int k = 0; k < devices; ++k) touch(buffers[k] = malloc((size_t)bytes), count);
    double* times = malloc(sizeof(double) * (size_t)repeats);
    for (int r = -repeats / 10 - 1; r < repeats; ++r) {
      const double start = omp_get_wtime();
      sum_once(buffers, devices, count);
      if (r >= 0) times[r] = omp_get_wtime() - start;
    }
    qsort(times, (size_t)repeats, sizeof(double), by_value);
    printf("%ld %.9f\n", bytes, times[repeats / 2]);
    for (int k = 0; k < devices; ++k) free(buffers[k]);
    free(times);
  }
  return 0;
}
