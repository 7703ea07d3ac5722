/* All-reduce of floats with MPI: mpi_all_reduce BYTES...
 * Prints one line per size: bytes, median seconds in place, median seconds into a second buffer. A repeat's
 * time is the slowest rank's; the ranks meet before each repeat, outside the time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median_seconds(const float* from, float* to, int count, int repeats) {
  double* times = malloc(sizeof(double) * (size_t)repeats);
  const void* source = from ? (const void*)from : MPI_IN_PLACE;
  for (int i = -repeats / 10 - 1; i < repeats; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(source, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double mine = MPI_Wtime() - start, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i >= 0) times[i] = slowest;
  }
  qsort(times, (size_t)repeats, sizeof(double), by_value);
  const double median = times[repeats / 2];
  free(times);
  return median;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    const int count = (int)(bytes / (long)sizeof(float));
    const long worth = 1L << 30; /* bytes summed in all repeats */
    const int repeats = worth / bytes > 1000 ? 1000 : worth / bytes < 7 ? 7 : (int)(worth / bytes);
    float* from = calloc((size_t)count, sizeof(float));
    float* to = calloc((size_t)count, sizeof(float));
    for (int k = 0; k < count; ++k)
      from[k] = to[k] = 0; /* pages are touched before the first time is taken */
    const double in_place = median_seconds(NULL, to, count, repeats),
                 apart = median_seconds(from, to, count, repeats);
    if (rank == 0) printf("%ld %.9f %.9f\n", bytes, in_place, apart);
    free(from);
    free(to);
  }
  MPI_Finalize();
  return 0;
}
