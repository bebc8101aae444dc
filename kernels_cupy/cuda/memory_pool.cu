// The pool's operations for the host, in batches: one thread a page, whole warps. See memory_pool.cuh.
//
// initialise_pool   ring, references and counters of a pool whose pages are all free
// acquire_pages     pages[i] = a page, or POOL_EMPTY where there was none left
// release_pages, share_pages   for every pages[i]
// write_pages, read_pages   data[0 .. num_units) in 16-byte units to and from pages[0], pages[1], ...; a block a page
// Bound: atomics; a warp draws its tickets with two.

#include "memory_pool.cuh"

extern "C" __global__ void initialise_pool(u32* ring, u32* references, u64* counters, u32 num_pages) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < num_pages) ring[i] = i, references[i] = 0;
  if (i < 6) counters[i] = i == POOL_AVAILABLE ? num_pages : 0;
}

extern "C" __global__ void acquire_pages(u32* ring, u32* references, u64* counters, u32 num_pages, u32* pages, u32 count) {
  const Pool pool = {ring, references, counters, num_pages};
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 page = pool_acquire(pool, i < count);
  if (i < count) pages[i] = page;
}

extern "C" __global__ void release_pages(u32* ring, u32* references, u64* counters, u32 num_pages, const u32* pages,
                                         u32 count) {
  const Pool pool = {ring, references, counters, num_pages};
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  pool_release(pool, i < count ? pages[i] : POOL_EMPTY, i < count);
}

extern "C" __global__ void share_pages(u32* ring, u32* references, u64* counters, u32 num_pages, const u32* pages,
                                       u32 count) {
  const Pool pool = {ring, references, counters, num_pages};
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) pool_share(pool, pages[i]);
}

extern "C" __global__ void __launch_bounds__(128)
write_pages(uint4* __restrict__ slab, u32 units_per_page, const u32* __restrict__ pages, const uint4* __restrict__ data,
            u64 num_units) {
  const u64 page = (u64)pages[blockIdx.x] * units_per_page, start = (u64)blockIdx.x * units_per_page;
  for (u32 i = threadIdx.x; i < units_per_page && start + i < num_units; i += 128) slab[page + i] = data[start + i];
}

extern "C" __global__ void __launch_bounds__(128)
read_pages(const uint4* __restrict__ slab, u32 units_per_page, const u32* __restrict__ pages, uint4* __restrict__ data,
           u64 num_units) {
  const u64 page = (u64)pages[blockIdx.x] * units_per_page, start = (u64)blockIdx.x * units_per_page;
  for (u32 i = threadIdx.x; i < units_per_page && start + i < num_units; i += 128) data[start + i] = slab[page + i];
}

// What a decoder's kernel does with the pool, for the tests: acquire, and release every other page, all at once.
extern "C" __global__ void churn_pages(u32* ring, u32* references, u64* counters, u32 num_pages, u32* owners, u32 rounds,
                                       u32* faults) {
  const Pool pool = {ring, references, counters, num_pages};
  const u32 me = blockIdx.x * blockDim.x + threadIdx.x + 1;
  for (u32 round = 0; round < rounds; ++round) {
    const u32 page = pool_acquire(pool, (me + round) % 3 != 0);
    const bool has = page != POOL_EMPTY;
    if (has && atomicExch(owners + page, me) != 0) atomicAdd(faults, 1u);   // somebody else has it too
    __syncwarp();
    if (has && atomicExch(owners + page, 0u) != me) atomicAdd(faults, 1u);
    pool_release(pool, page, has);
  }
}
