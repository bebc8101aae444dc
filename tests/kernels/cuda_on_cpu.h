// Enough of CUDA to run the project's kernels on a CPU, for their results (not their speed): every thread of a block is
// a coroutine, blocks run one after the other, and a warp's collectives wait for the threads that they name.
// A kernel's parameters must be integers and pointers (they are passed on as 64-bit words).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __CUDA_ON_CPU__ 1

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct dim3_ { unsigned x, y, z; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace on_cpu {

constexpr unsigned kMaxThreads = 1024;
constexpr size_t kStackBytes = 64 << 10;

struct Gate {  // a barrier that may be used again at once
  unsigned arrived = 0;
  unsigned generation = 0;
};

struct Thread {
  ucontext_t context;
  dim3_ index;
  unsigned number;
  bool alive;
  char* stack;
  unsigned uses;  // of the warp's gate, for the double-buffered slots
};

static Thread threads[kMaxThreads];
static ucontext_t scheduler;
static Thread* current;
static unsigned num_threads;
static unsigned progress;  // counts releases: a round without any and without an exit is a deadlock
static Gate block_gate;
static Gate warp_gates[kMaxThreads / 32];
static uint64_t slots[2][kMaxThreads];
static int votes[2];
static dim3_ block_index, block_size, grid_size;

static void yield() { swapcontext(&current->context, &scheduler); }

static unsigned living() {
  unsigned count = 0;
  for (unsigned i = 0; i < num_threads; ++i) count += threads[i].alive;
  return count;
}

static void block_barrier() {
  const unsigned generation = block_gate.generation;
  ++block_gate.arrived;
  while (block_gate.generation == generation) {
    if (block_gate.arrived >= living()) {
      block_gate.arrived = 0, ++block_gate.generation, ++progress;
      break;
    }
    yield();
  }
}

static int block_vote(bool value, bool all) {
  // Three barriers: clear, vote, read.
  block_barrier();
  votes[0] = all;
  block_barrier();
  if (all ? !value : value) votes[0] = !all;
  block_barrier();
  return votes[0];
}

// Publishes `value` to the warp and waits for the lanes in `mask`; the returned slots are those of lanes 0 to 31.
static const uint64_t* exchange(unsigned mask, uint64_t value) {
  const unsigned warp = current->number / 32;
  if (!(mask >> current->number % 32 & 1)) {
    fprintf(stderr, "a lane takes part in a collective that does not name it\n");
    abort();
  }
  Gate& gate = warp_gates[warp];
  uint64_t* side = slots[current->uses++ & 1];
  side[current->number] = value;
  const unsigned generation = gate.generation;
  if (++gate.arrived == (unsigned)__builtin_popcount(mask)) {
    gate.arrived = 0, ++gate.generation, ++progress;
  } else {
    while (gate.generation == generation) yield();
  }
  return side + warp * 32;
}

// In which order threads get their turns: 0 is by number, anything else seeds a shuffle of every round. A result that
// depends on it means a missing barrier.
static unsigned order_seed;
static unsigned turns[kMaxThreads];

static void shuffle_turns() {
  for (unsigned i = 0; i < num_threads; ++i) turns[i] = i;
  if (order_seed == 0) return;
  for (unsigned i = num_threads - 1; i > 0; --i) {
    order_seed = order_seed * 1664525u + 1013904223u;
    const unsigned j = (unsigned)((uint64_t)order_seed * (i + 1) >> 32);
    const unsigned other = turns[i];
    turns[i] = turns[j], turns[j] = other;
  }
}

using Kernel = void (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static Kernel kernel;
static const uint64_t* arguments;

static void thread_main() {
  const uint64_t* a = arguments;
  kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
  current->alive = false;
  ++progress;
  swapcontext(&current->context, &scheduler);
}

}  // namespace on_cpu

extern "C" void set_order(unsigned seed) { on_cpu::order_seed = seed; }

// Returns 0, or 1 where the block's threads wait for each other for ever.
extern "C" int run_kernel(void* function, const unsigned* grid, const unsigned* block, const uint64_t* arguments) {
  using namespace on_cpu;
  kernel = (Kernel)function;
  on_cpu::arguments = arguments;
  grid_size = {grid[0], grid[1], grid[2]};
  block_size = {block[0], block[1], block[2]};
  num_threads = block[0] * block[1] * block[2];
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        block_index = {x, y, z};
        block_gate = Gate();
        for (auto& gate : warp_gates) gate = Gate();
        for (unsigned i = 0; i < num_threads; ++i) {
          Thread& t = threads[i];
          if (!t.stack) t.stack = (char*)malloc(kStackBytes);
          t.number = i;
          t.index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
          t.alive = true;
          t.uses = 0;
          getcontext(&t.context);
          t.context.uc_stack.ss_sp = t.stack;
          t.context.uc_stack.ss_size = kStackBytes;
          t.context.uc_link = &scheduler;
          makecontext(&t.context, thread_main, 0);
        }
        for (;;) {
          const unsigned before = progress;
          bool any = false;
          shuffle_turns();
          for (unsigned turn = 0; turn < num_threads; ++turn) {
            Thread& thread = threads[turns[turn]];
            if (!thread.alive) continue;
            any = true;
            current = &thread;
            swapcontext(&scheduler, &thread.context);
          }
          if (!any) break;
          if (before == progress) return 1;
        }
      }
  return 0;
}

#define threadIdx (on_cpu::current->index)
#define blockIdx (on_cpu::block_index)
#define blockDim (on_cpu::block_size)
#define gridDim (on_cpu::grid_size)

static inline void __syncthreads() { on_cpu::block_barrier(); }
static inline int __syncthreads_and(int v) { return on_cpu::block_vote(v != 0, true); }
static inline int __syncthreads_or(int v) { return on_cpu::block_vote(v != 0, false); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { on_cpu::exchange(mask, 0); }
static inline void __threadfence() {}
static inline void __nanosleep(unsigned) { on_cpu::yield(); }

template <typename T> static inline T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  const int lane = on_cpu::current->number % 32;
  const uint64_t* all = on_cpu::exchange(mask, (uint64_t)v);
  return (T)all[(lane & ~(width - 1)) | (source & (width - 1))];
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
  const int lane = on_cpu::current->number % 32;
  const uint64_t* all = on_cpu::exchange(mask, (uint64_t)v);
  return (lane & (width - 1)) >= (int)d ? (T)all[lane - d] : v;
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
  const int lane = on_cpu::current->number % 32;
  const uint64_t* all = on_cpu::exchange(mask, (uint64_t)v);
  return (lane & (width - 1)) + (int)d < width ? (T)all[lane + d] : v;
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int x, int = 32) {
  const int lane = on_cpu::current->number % 32;
  return (T)on_cpu::exchange(mask, (uint64_t)v)[lane ^ x];
}
static inline unsigned __ballot_sync(unsigned mask, int v) {
  const uint64_t* all = on_cpu::exchange(mask, v != 0);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) result |= (unsigned)all[i] << i;
  return result;
}
static inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
static inline int __all_sync(unsigned mask, int v) { return __ballot_sync(mask, v) == mask; }
static inline unsigned __match_any_sync(unsigned mask, unsigned v) {
  const uint64_t* all = on_cpu::exchange(mask, v);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) result |= (unsigned)(all[i] == v) << i;
  return result;
}
template <typename F> static inline unsigned on_cpu_reduce(unsigned mask, unsigned v, F f) {
  const uint64_t* all = on_cpu::exchange(mask, v);
  unsigned result = v;
  bool first = true;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) result = first ? (unsigned)all[i] : f(result, (unsigned)all[i]), first = false;
  return result;
}
static inline unsigned __reduce_add_sync(unsigned m, unsigned v) { return on_cpu_reduce(m, v, [](unsigned a, unsigned b) { return a + b; }); }
static inline unsigned __reduce_min_sync(unsigned m, unsigned v) { return on_cpu_reduce(m, v, [](unsigned a, unsigned b) { return a < b ? a : b; }); }
static inline unsigned __reduce_max_sync(unsigned m, unsigned v) { return on_cpu_reduce(m, v, [](unsigned a, unsigned b) { return a > b ? a : b; }); }
static inline unsigned __reduce_or_sync(unsigned m, unsigned v) { return on_cpu_reduce(m, v, [](unsigned a, unsigned b) { return a | b; }); }

template <typename T> static inline T atomicAdd(T* p, typename std::common_type<T>::type v) { T old = *p; *p = old + v; return old; }
template <typename T> static inline T atomicSub(T* p, typename std::common_type<T>::type v) { T old = *p; *p = old - v; return old; }
template <typename T> static inline T atomicMax(T* p, typename std::common_type<T>::type v) { T old = *p; if (v > old) *p = v; return old; }
template <typename T> static inline T atomicOr(T* p, typename std::common_type<T>::type v) { T old = *p; *p = old | v; return old; }
template <typename T> static inline T atomicExch(T* p, typename std::common_type<T>::type v) { T old = *p; *p = v; return old; }
template <typename T> static inline T atomicCAS(T* p, typename std::common_type<T>::type c, typename std::common_type<T>::type v) { T old = *p; if (old == c) *p = v; return old; }

template <typename A, typename B> static inline typename std::common_type<A, B>::type min(A a, B b) { return a < b ? a : b; }
template <typename A, typename B> static inline typename std::common_type<A, B>::type max(A a, B b) { return a > b ? a : b; }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((uint64_t)high << 32 | low) << (shift & 31)) >> 32);
}
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline unsigned on_cpu_pairs(unsigned a, unsigned b, bool larger) {
  const unsigned la = a & 0xffff, lb = b & 0xffff, ha = a >> 16, hb = b >> 16;
  return ((la > lb) == larger ? la : lb) | ((ha > hb) == larger ? ha : hb) << 16;
}
static inline unsigned __vminu2(unsigned a, unsigned b) { return on_cpu_pairs(a, b, false); }
static inline unsigned __vmaxu2(unsigned a, unsigned b) { return on_cpu_pairs(a, b, true); }
static inline unsigned __vsadu2(unsigned a, unsigned b) {
  return (unsigned)abs((int)(a & 0xffff) - (int)(b & 0xffff)) + (unsigned)abs((int)(a >> 16) - (int)(b >> 16));
}
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float v) { return v > 0 ? (v < 1 ? v : 1.0f) : 0.0f; }
static inline int __float2int_rn(float v) { return (int)rintf(v); }
template <typename T> static inline T __ldg(const T* p) { return *p; }
