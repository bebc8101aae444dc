// Which 64x64 blocks of a frame differ from the stored ones. Specification: reference/block_diff.py.
//
// changed_blocks   one block of 256 threads per (frame, position)
//   in   sources, stored   [frame * num_planes + plane], u16 planes (height, width), C-contiguous
//        planes            see tile.cuh
//        threshold_ppm     changed: sum |a - b| * 1,000,000 > threshold_ppm * max(sum b, 1); 0 asks for equality
//   out  ids               frame * num_positions + position of the changed blocks, in any order
//        count             how many; the launcher zeroes it
// Shared memory: 64 bytes. Bound: device memory, both frames read once.

#include "tile.cuh"

#define FULL_WARP 0xffffffffu

extern "C" __global__ void __launch_bounds__(256)
changed_blocks(const u64* __restrict__ sources, const u64* __restrict__ stored, const int4* __restrict__ planes,
               int num_planes, int num_positions, u32 threshold_ppm, u32* __restrict__ ids, u32* __restrict__ count) {
  __shared__ u32 changes[8], sums[8];
  const int position = blockIdx.x % num_positions;
  const u64 frame = blockIdx.x / num_positions;
  const Tile tile = find_tile(planes, num_planes, position);
  u32 a[8], b[8];
  load_group(global_samples(sources[frame * num_planes + tile.plane], sources), tile, 0, a);
  load_group(global_samples(stored[frame * num_planes + tile.plane], stored), tile, 0, b);
  u32 change = 0, sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    change += __vsadu2(a[k], b[k]);
    sum += (b[k] & 0xffff) + (b[k] >> 16);
  }
  change = __reduce_add_sync(FULL_WARP, change);
  sum = __reduce_add_sync(FULL_WARP, sum);
  if ((threadIdx.x & 31) == 0) changes[threadIdx.x >> 5] = change, sums[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    change = 0, sum = 0;
    for (int w = 0; w < 8; ++w) change += changes[w], sum += sums[w];
    if ((u64)change * 1000000 > (u64)threshold_ppm * max(sum, 1u)) ids[atomicAdd(count, 1u)] = blockIdx.x;
  }
}
