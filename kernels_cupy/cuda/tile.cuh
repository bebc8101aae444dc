// Tiles of planes as the kernels see them; pasted by the loader where a source includes it.
//
// planes[plane] is {height, width, tile columns, first position}; a position counts the tiles of a frame, plane by plane.
// A tile is a block of 256 threads. Thread t holds rows 2 * (t / 8) and the next, columns 8 * (t % 8) to +7: four words a
// row, two samples a word, the left one low.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Tile {
  int plane, row, column;      // of the tile's first sample
  int height, width;           // of the plane
};

static __device__ __forceinline__ Tile find_tile(const int4* planes, int num_planes, int position) {
  int plane = 0;
  while (plane + 1 < num_planes && position >= planes[plane + 1].w) ++plane;
  const int4 p = planes[plane];
  const int local = position - p.w;
  Tile tile;
  tile.plane = plane;
  tile.row = local / p.z * TILE;
  tile.column = local % p.z * TILE;
  tile.height = p.x;
  tile.width = p.y;
  return tile;
}

// Hides where a value comes from: what depends on it is computed here and now, not kept in registers across a loop.
static __device__ __forceinline__ int here(int value) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(value));
#endif
  return value;
}

// An address from a table of pointers. Written as a distance from a parameter that points to global memory, or else the
// compiler makes generic accesses of it.
static __device__ __forceinline__ u16* global_samples(u64 address, const void* parameter) {
  return (u16*)((char*)parameter + (long long)(address - (u64)parameter));
}

static __device__ __forceinline__ u32 quantise_one(u32 sample, int shift) {
  const u32 half = 1u << (shift - 1);
  return min(sample + half, 65535u) >> shift;
}

// Words a[0..3] are this thread's first row, a[4..7] its second. Samples outside the plane repeat its edge.
static __device__ __forceinline__ void load_group(const u16* plane, const Tile& tile, int shift, u32 a[8]) {
  const int column = here(tile.column + 8 * (threadIdx.x & 7));
  const bool aligned = (((u64)plane | (u64)(2 * tile.width)) & 15) == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = min(tile.row + 2 * (int)(threadIdx.x >> 3) + r, tile.height - 1);
    const u16* line = plane + (u64)row * tile.width;
    if (aligned && column + 8 <= tile.width) {
      const uint4 v = *(const uint4*)(line + column);
      a[4 * r] = v.x, a[4 * r + 1] = v.y, a[4 * r + 2] = v.z, a[4 * r + 3] = v.w;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const u32 lo = line[min(column + 2 * k, tile.width - 1)];
        const u32 hi = line[min(column + 2 * k + 1, tile.width - 1)];
        a[4 * r + k] = lo | hi << 16;
      }
    }
  }
  if (shift) {
#pragma unroll
    for (int k = 0; k < 8; ++k) a[k] = quantise_one(a[k] & 0xffff, shift) | quantise_one(a[k] >> 16, shift) << 16;
  }
}
