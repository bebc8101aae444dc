// Separable Lanczos-3 resize of float32 planes. Specification: reference/lanczos.py.
//
// resize_columns   (rows, source) -> (rows, target): a thread makes one column of four rows
// resize_rows      (planes, source, width) -> (planes, target, width): a thread makes one row of four columns
//   first[i]       first input sample of output sample i; weights[tap * target + i], zero beyond a window's end
// Grid: (ceil(rows / 4), ceil(target / 128)) and (ceil(width / 512), target, planes), with LANCZOS_SAMPLES = 4 and
// LANCZOS_THREADS = 128. The four columns of resize_rows are one float4.
// Bound: device memory (each input sample is used by several threads of one block, out of the L1).

typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(LANCZOS_THREADS)
resize_columns(const float* __restrict__ input, float* __restrict__ output, const int* __restrict__ first,
               const float* __restrict__ weights, int taps, int rows, int source, int target) {
  const int column = blockIdx.y * LANCZOS_THREADS + threadIdx.x;
  const int row = blockIdx.x * LANCZOS_SAMPLES;
  if (column >= target) return;
  const float* lines[LANCZOS_SAMPLES];
#pragma unroll
  for (int r = 0; r < LANCZOS_SAMPLES; ++r) lines[r] = input + (u64)min(row + r, rows - 1) * source;
  float sums[LANCZOS_SAMPLES] = {};
  const int from = first[column];
  for (int tap = 0; tap < taps; ++tap) {
    const float weight = weights[(u64)tap * target + column];
    const int at = min(from + tap, source - 1);
#pragma unroll
    for (int r = 0; r < LANCZOS_SAMPLES; ++r) sums[r] += weight * lines[r][at];
  }
#pragma unroll
  for (int r = 0; r < LANCZOS_SAMPLES; ++r)
    if (row + r < rows) output[(u64)(row + r) * target + column] = sums[r];
}

extern "C" __global__ void __launch_bounds__(LANCZOS_THREADS)
resize_rows(const float* __restrict__ input, float* __restrict__ output, const int* __restrict__ first,
            const float* __restrict__ weights, int taps, int source, int target, int width) {
  const int column = (blockIdx.x * LANCZOS_THREADS + threadIdx.x) * LANCZOS_SAMPLES;
  const int row = blockIdx.y;
  if (column >= width) return;
  const float* plane = input + (u64)blockIdx.z * source * width;
  float* line = output + ((u64)blockIdx.z * target + row) * width;
  const int from = first[row];
  float sums[LANCZOS_SAMPLES] = {};
  if (width % 4 == 0) {
    for (int tap = 0; tap < taps; ++tap) {
      const float weight = weights[(u64)tap * target + row];
      const float4 v = *(const float4*)(plane + (u64)min(from + tap, source - 1) * width + column);
      sums[0] += weight * v.x, sums[1] += weight * v.y, sums[2] += weight * v.z, sums[3] += weight * v.w;
    }
    *(float4*)(line + column) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  } else {
    for (int tap = 0; tap < taps; ++tap) {
      const float weight = weights[(u64)tap * target + row];
      const float* values = plane + (u64)min(from + tap, source - 1) * width;
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k] += weight * values[min(column + k, width - 1)];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (column + k < width) line[column + k] = sums[k];
  }
}
