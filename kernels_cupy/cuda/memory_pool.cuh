// A pool of fixed pages for kernels: pool_acquire and pool_release may be called from any kernel, at the same time.
// Pasted by the loader where a source includes it. Specification: reference/memory_pool.py.
//
// The free pages lie in a ring. `available` is what may be taken: an acquirer first lowers it, then draws a ticket from
// `head` and takes the page in that slot; a releaser draws a ticket from `tail`, fills that slot, then raises `available`.
// A slot that another thread has a ticket for but has not filled (or emptied) yet is waited for: that thread is past
// its last wait, so the wait is short and there is no cycle.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Pool {
  u32* ring;         // num_pages slots
  u32* references;   // of each page; 0 is free
  u64* counters;     // the six below
  u32 num_pages;
};

#define POOL_AVAILABLE 0   // free pages that may be taken
#define POOL_HEAD 1        // tickets drawn by acquirers
#define POOL_TAIL 2        // tickets drawn by releasers
#define POOL_PEAK 3        // most pages in use at a time
#define POOL_FAILED 4      // pages asked for in vain
#define POOL_MISUSED 5     // double releases, foreign pages, sharing of free pages

// How many of the `wanted` pages may be taken: all, or what there is.
static __device__ u32 pool_reserve(const Pool& pool, u32 wanted) {
  u64* available = pool.counters + POOL_AVAILABLE;
  u64 old = atomicAdd(available, 0ull);
  for (;;) {
    const u64 got = old < wanted ? old : wanted;
    const u64 seen = atomicCAS(available, old, old - got);
    if (seen == old) {
      if (got) atomicMax(pool.counters + POOL_PEAK, (u64)pool.num_pages - (old - got));
      if (got < wanted) atomicAdd(pool.counters + POOL_FAILED, (u64)(wanted - got));
      return (u32)got;
    }
    old = seen;
  }
}

// One page for every lane with `wants`; all 32 lanes call. POOL_EMPTY where there was none.
static __device__ u32 pool_acquire(const Pool& pool, bool wants) {
  const u32 lane = threadIdx.x & 31;
  const u32 asking = __ballot_sync(0xffffffffu, wants);
  u32 got = 0;
  u64 ticket = 0;
  if (lane == 0 && asking) {
    got = pool_reserve(pool, __popc(asking));
    ticket = atomicAdd(pool.counters + POOL_HEAD, (u64)got);
  }
  got = __shfl_sync(0xffffffffu, got, 0);
  ticket = __shfl_sync(0xffffffffu, ticket, 0);
  const u32 rank = __popc(asking & ((1u << lane) - 1));
  if (!wants || rank >= got) return POOL_EMPTY;
  u32* slot = pool.ring + (ticket + rank) % pool.num_pages;
  u32 page;
  while ((page = atomicExch(slot, POOL_EMPTY)) == POOL_EMPTY) __nanosleep(20);
  atomicExch(pool.references + page, 1u);
  return page;
}

// Adds `change` (1 or -1) to a page's references if it has any; returns what there was, 0 also for foreign pages.
static __device__ u32 pool_count(const Pool& pool, u32 page, int change) {
  if (page < pool.num_pages) {
    u32 old = atomicAdd(pool.references + page, 0u);
    while (old) {
      const u32 seen = atomicCAS(pool.references + page, old, old + change);
      if (seen == old) return old;
      old = seen;
    }
  }
  atomicAdd(pool.counters + POOL_MISUSED, 1ull);
  return 0;
}

// One more owner of a page that is in use.
static __device__ void pool_share(const Pool& pool, u32 page) { pool_count(pool, page, 1); }

// One owner less for the page of every lane with `releases`; all 32 lanes call. The last owner frees the page.
static __device__ void pool_release(const Pool& pool, u32 page, bool releases) {
  const u32 lane = threadIdx.x & 31;
  const bool frees = releases && pool_count(pool, page, -1) == 1;
  const u32 freeing = __ballot_sync(0xffffffffu, frees);
  u64 ticket = 0;
  if (lane == 0 && freeing) ticket = atomicAdd(pool.counters + POOL_TAIL, (u64)__popc(freeing));
  ticket = __shfl_sync(0xffffffffu, ticket, 0);
  if (frees) {
    u32* slot = pool.ring + (ticket + __popc(freeing & ((1u << lane) - 1))) % pool.num_pages;
    while (atomicCAS(slot, POOL_EMPTY, page) != POOL_EMPTY) __nanosleep(20);
    __threadfence();
  }
  __syncwarp();
  if (lane == 0 && freeing) atomicAdd(pool.counters + POOL_AVAILABLE, (u64)__popc(freeing));
}
