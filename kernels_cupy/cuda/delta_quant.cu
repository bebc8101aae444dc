// The tile codec of FORMAT.md: predict, choose, pack, and back. Specification: reference/delta_quant.py.
//
// encode_tiles   one block per tile position, which goes through the frames and keeps the last tile in shared memory
//   in   sources[frame * num_planes + plane]  u16 planes (height, width), C-contiguous
//        before[plane]                        the frame before the first, or null
//        planes[plane]                        {height, width, tile columns, first position}
//   out  table[position * num_frames + frame] entries; payload, in whatever order the blocks come by
//        cursor                               units used; the launcher zeroes it
//        failed                               set when `capacity_units` did not suffice (the payload is then useless)
// decode_tiles   the same grid, backwards; `failed` is set for a tile that no encoder wrote, which is left zero
// reorder        one warp per tile: the payload in table order (FORMAT.md's deterministic stream)
//
// Grid: num_positions blocks of 256 threads. Thread t owns group t: rows 2 * (t / 8) and the next, columns 8 * (t % 8)
// to +7, as two 128-bit loads: four words a row, two samples a word, the left one low.
// Shared memory: 25 KB to encode (the packed tile, the tile and the one before), 9 KB to decode.
// Bound: device memory. A frame is read once, its compressed form written once (read once, written once, backwards).
//
// Arithmetic: a word that holds two samples is treated as the 32-bit integer hi * 65536 + lo. Differences and sums of
// such words are those of the samples, two at a time, as long as lo stays within 16 signed bits, which PREDICTED_LIMIT
// guarantees: lo may then be negative and borrow from hi, and `lanes` undoes the borrow where bits are looked at.

#include "tile.cuh"

#define FULL_WARP 0xffffffffu
#define THREADS GROUPS_PER_TILE
#define WARPS (THREADS / 32)

static __device__ __forceinline__ void store_group(u16* plane, const Tile& tile, int shift, u32 limit, const u32 x[8]) {
  const int column = tile.column + 8 * (threadIdx.x & 7);
  const bool aligned = (((u64)plane | (u64)(2 * tile.width)) & 15) == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = tile.row + 2 * (int)(threadIdx.x >> 3) + r;
    if (row >= tile.height) break;
    u32 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[k] = x[4 * r + k];
      if (shift) v[k] = min((v[k] & 0xffff) << shift, limit) | min(v[k] >> 16 << shift, limit) << 16;
    }
    u16* line = plane + (u64)row * tile.width;
    if (aligned && column + 8 <= tile.width) {
      *(uint4*)(line + column) = make_uint4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k)
        if (column + k < tile.width) line[column + k] = (u16)(v[k / 2] >> 16 * (k & 1));
    }
  }
}

// hi * 65536 + lo with a signed lo -> the two 16-bit lanes.
static __device__ __forceinline__ u32 lanes(u32 word) { return word + ((word & 0x8000u) << 1); }
static __device__ __forceinline__ int low_of(u32 word) { return (int)(short)(word & 0xffff); }
static __device__ __forceinline__ int high_of(u32 word) { return (int)(word + 0x8000u) >> 16; }
static __device__ __forceinline__ u32 both(u32 value) { return value * 0x10001u; }

static __device__ __forceinline__ u32 shifted(u32 word, u32 before) { return word << 16 | before >> 16; }

// Bits that a residual of the given lanes needs: r ^ (r << 1) has its top bit where r's sign stops repeating.
static __device__ __forceinline__ u32 changes_of(u32 lanes) { return lanes ^ (lanes << 1 & 0xfffefffeu); }
// 1 + the place of the highest set bit, 0 for 0. (32 - __clz is two instructions more: bfind is what __clz is made of.)
static __device__ __forceinline__ u32 bit_length(u32 value) {
#ifdef __CUDA_ARCH__
  u32 place;
  asm("bfind.u32 %0, %1;" : "=r"(place) : "r"(value));
  return place + 1;
#else
  return 32 - __clz((int)value);
#endif
}

static __device__ __forceinline__ u32 width_of(u32 changes) {
  const u32 width = bit_length((changes | changes >> 16) & 0xffffu);
  return width == 15 ? 16 : width;
}

// 16 values of `width` bits each, from halfword `at` on; l holds them as 16-bit lanes. Below 9 bits four values at a
// time fit a word.
static __device__ __forceinline__ void pack_group(u16* halfwords, u32 at, u32 width, const u32 l[8]) {
  const u32 mask = (1u << width) - 1;
  if (width == 0) return;
  if (width <= 8) {
    u32 bits = 0, filled = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const u32 first = (l[2 * k] & mask) | (l[2 * k] >> 16 & mask) << width;
      const u32 second = (l[2 * k + 1] & mask) | (l[2 * k + 1] >> 16 & mask) << width;
      const u32 four = first | second << 2 * width;
      bits |= four << filled;
      const u32 above = __funnelshift_l(four, 0, filled);
      filled += 4 * width;
      if (filled >= 32) {
        halfwords[at] = (u16)bits, halfwords[at + 1] = (u16)(bits >> 16);
        at += 2, filled -= 32, bits = above;
      }
    }
    if (filled) halfwords[at] = (u16)bits;  // 16 * width bits are whole halfwords
  } else {
    u32 bits = 0, filled = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      bits |= (k & 1 ? l[k / 2] >> 16 & mask : l[k / 2] & mask) << filled;
      filled += width;
      if (filled >= 16) halfwords[at++] = (u16)bits, bits >>= 16, filled -= 16;
    }
  }
}

static __device__ __forceinline__ int signed_bits(u32 bits, u32 width) {
  return (int)(bits << (32 - width)) >> (32 - width);
}

static __device__ __forceinline__ void unpack_group(const u16* halfwords, u32 at, u32 width, u32 r[8]) {
  u32 bits = 0, filled = 0;
  if (width == 0) {
#pragma unroll
    for (int k = 0; k < 8; ++k) r[k] = 0;
  } else if (width <= 8) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (filled < 2 * width) bits |= (u32)halfwords[at++] << filled, filled += 16;
      r[k] = (u32)signed_bits(bits, width) + ((u32)signed_bits(bits >> width, width) << 16);
      bits >>= 2 * width, filled -= 2 * width;
    }
  } else {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      if (filled < width) bits |= (u32)halfwords[at++] << filled, filled += 16;
      const u32 value = (u32)signed_bits(bits, width);
      r[k / 2] = k & 1 ? r[k / 2] + (value << 16) : value;
      bits >>= width, filled -= width;
    }
  }
}

static __device__ __forceinline__ u32 warp_inclusive(u32 value) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_up_sync(FULL_WARP, value, d);
    if (lane >= d) value += other;
  }
  return value;
}

static __device__ __forceinline__ u64 make_entry(u32 mode, u32 units, u32 value, u32 offset) {
  return (u64)((mode << 28) | (units << 16) | value) << 32 | offset;
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
encode_tiles(const u64* __restrict__ sources, const u64* __restrict__ before, const int4* __restrict__ planes,
             int num_planes, int num_frames, int shift, u64* __restrict__ table, uint4* __restrict__ payload,
             u32 capacity_units, u32* __restrict__ cursor, u32* __restrict__ failed) {
  __shared__ uint4 packed[RAW_UNITS];
  __shared__ uint4 tiles[2][2 * THREADS];  // this frame's and the one before: first rows, then second rows
  // Of each warp, by the frame's parity, so that the next frame need not wait for slower readers:
  __shared__ u32 extremes[2][WARPS];       // 0xffff - smallest | largest << 16
  __shared__ u32 costs[2][2][WARPS];       // sums of widths: left | up << 16, gradient | temporal << 16
  __shared__ u32 sums[WARPS];              // widths of the chosen predictor
  __shared__ u32 reserved;

  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const bool left_edge = (t & 7) == 0;
  const Tile tile = find_tile(planes, num_planes, blockIdx.x);
  bool have_before = false, before_fits = false;
  if (before) {
    u32 p[8];
    load_group(global_samples(before[tile.plane], before), tile, shift, p);
    tiles[1][t] = make_uint4(p[0], p[1], p[2], p[3]);
    tiles[1][t + THREADS] = make_uint4(p[4], p[5], p[6], p[7]);
    u32 any = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) any |= p[k];
    have_before = true;
    before_fits = !__syncthreads_or((any | any >> 16) & 0xffffu & ~(PREDICTED_LIMIT - 1u));
  }

  for (int frame = 0; frame < num_frames; ++frame) {
    const int parity = frame & 1;
    uint4* tile_now = tiles[parity];
    const uint4* tile_before = tiles[parity ^ 1];
    u32 a[8];
    load_group(global_samples(sources[(u64)frame * num_planes + tile.plane], sources), tile, shift, a);
    tile_now[t] = make_uint4(a[0], a[1], a[2], a[3]);
    tile_now[t + THREADS] = make_uint4(a[4], a[5], a[6], a[7]);

    // What each predictor would cost, judged by the last two samples of the groups' second rows (0.6 % of the ratio
    // on photographs, and a third of the instructions).
    u32 left0 = __shfl_up_sync(FULL_WARP, a[3], 1);
    u32 left1 = __shfl_up_sync(FULL_WARP, a[7], 1);
    u32 low = a[0], high = a[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) low = __vminu2(low, a[k]), high = __vmaxu2(high, a[k]);
    const u32 first_row = a[3] - shifted(a[3], a[2]), second_row = a[7] - shifted(a[7], a[6]);
    u32 cost0 = width_of(changes_of(lanes(second_row))) | width_of(changes_of(lanes(a[7] - a[3]))) << 16;
    u32 cost1 = width_of(changes_of(lanes(second_row - first_row)));
    bool same = have_before;
    if (have_before) {
      const uint4 p = tile_before[t], q = tile_before[t + THREADS];
      same = ((a[0] ^ p.x) | (a[1] ^ p.y) | (a[2] ^ p.z) | (a[3] ^ p.w) | (a[4] ^ q.x) | (a[5] ^ q.y) | (a[6] ^ q.z) |
              (a[7] ^ q.w)) == 0;
      cost1 |= width_of(changes_of(lanes(a[7] - q.w))) << 16;
    }
    low = __reduce_min_sync(FULL_WARP, min(low & 0xffff, low >> 16));
    high = __reduce_max_sync(FULL_WARP, max(high & 0xffff, high >> 16));
    cost0 = __reduce_add_sync(FULL_WARP, cost0);
    cost1 = __reduce_add_sync(FULL_WARP, cost1);
    if (lane == 0) {
      extremes[parity][warp] = (0xffff - low) | high << 16;
      costs[parity][0][warp] = cost0, costs[parity][1][warp] = cost1;
    }
    const bool unchanged = __syncthreads_and(same);

    u32 extreme = extremes[parity][0];
#pragma unroll
    for (int w = 1; w < WARPS; ++w) extreme = __vmaxu2(extreme, extremes[parity][w]);
    low = 0xffff - (extreme & 0xffff), high = extreme >> 16;
    u64* entry = table + (u64)blockIdx.x * num_frames + frame;
    const bool fits = high < PREDICTED_LIMIT;

    if (low == high) {
      if (t == 0) *entry = make_entry(MODE_CONSTANT, 0, low, 0);
    } else if (unchanged) {
      if (t == 0) *entry = make_entry(MODE_UNCHANGED, 0, 0, 0);
    } else {
      u32 units = RAW_UNITS, mode = MODE_RAW, value = 0;
      if (fits) {
        cost0 = __reduce_add_sync(FULL_WARP, lane < WARPS ? costs[parity][0][lane & 7] : 0);
        cost1 = __reduce_add_sync(FULL_WARP, lane < WARPS ? costs[parity][1][lane & 7] : 0);
        // cost * 8 + 7 - mode: of equal costs the highest mode wins. Dc is judged by the range: high > low here.
        u32 best = GROUPS_PER_TILE * bit_length(high - low) << 3 | (7 - MODE_DC);
        best = min(best, (cost0 & 0xffff) << 3 | (7 - MODE_LEFT));
        best = min(best, cost0 >> 16 << 3 | (7 - MODE_UP));
        best = min(best, (cost1 & 0xffff) << 3 | (7 - MODE_GRADIENT));
        if (have_before && before_fits) best = min(best, cost1 >> 16 << 3 | (7 - MODE_TEMPORAL));
        mode = 7 - (best & 7);

        u32 r[8];
        if (mode == MODE_DC) {
          value = (low + high + 1) >> 1;
#pragma unroll
          for (int k = 0; k < 8; ++k) r[k] = a[k] - both(value);
        } else if (mode == MODE_TEMPORAL) {
          const uint4 p = tile_before[t], q = tile_before[t + THREADS];
          r[0] = a[0] - p.x, r[1] = a[1] - p.y, r[2] = a[2] - p.z, r[3] = a[3] - p.w;
          r[4] = a[4] - q.x, r[5] = a[5] - q.y, r[6] = a[6] - q.z, r[7] = a[7] - q.w;
        } else {
          value = tile_now[0].x & 0xffff;  // the tile's first sample stands for everything outside
          const u32 edge = value << 16;
          left0 = left_edge ? edge : left0, left1 = left_edge ? edge : left1;
          uint4 up = make_uint4(both(value), both(value), both(value), both(value));
          if (t >= 8) up = tile_now[THREADS + t - 8];
          u32 left_up = __shfl_up_sync(FULL_WARP, up.w, 1);
          left_up = left_edge ? edge : left_up;
          const u32 above[4] = {up.x, up.y, up.z, up.w};
          if (mode == MODE_UP) {
#pragma unroll
            for (int k = 0; k < 4; ++k) r[k] = a[k] - above[k], r[4 + k] = a[4 + k] - a[k];
          } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              r[k] = a[k] - shifted(a[k], k ? a[k - 1] : left0);
              r[4 + k] = a[4 + k] - shifted(a[4 + k], k ? a[3 + k] : left1);
            }
            if (mode == MODE_GRADIENT) {
#pragma unroll
              for (int k = 0; k < 4; ++k) {
                r[4 + k] -= r[k];
                r[k] -= above[k] - shifted(above[k], k ? above[k - 1] : left_up);
              }
            }
          }
        }
        u32 changes = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) r[k] = lanes(r[k]), changes |= changes_of(r[k]);
        const u32 width = width_of(changes);
        const u32 inclusive = warp_inclusive(width);
        if (lane == 31) sums[warp] = inclusive;
        const u32 nibble = min(width, 15u);
        const u32 partner = __shfl_down_sync(FULL_WARP, nibble, 1);
        if ((t & 1) == 0) ((u8*)packed)[t >> 1] = (u8)(nibble | partner << 4);
        __syncthreads();
        const u32 mine = lane < WARPS ? sums[lane & 7] : 0;
        const u32 halfwords = __reduce_add_sync(FULL_WARP, mine);
        const u32 earlier = __reduce_add_sync(FULL_WARP, lane < warp ? mine : 0);
        units = (WIDTHS_BYTES + 2 * halfwords + UNIT_BYTES - 1) / UNIT_BYTES;
        if (units < RAW_UNITS) {
          if (t == 0) reserved = atomicAdd(cursor, units);
          pack_group((u16*)packed, WIDTHS_BYTES / 2 + earlier + inclusive - width, width, r);
          const u32 end = WIDTHS_BYTES / 2 + halfwords + t;  // zeros up to a whole unit
          if (t < UNIT_BYTES / 2 && end < units * (UNIT_BYTES / 2)) ((u16*)packed)[end] = 0;
        } else {
          units = RAW_UNITS, mode = MODE_RAW, value = 0;
        }
      }
      if (mode == MODE_RAW && t == 0) reserved = atomicAdd(cursor, units);
      __syncthreads();
      const u32 offset = reserved;
      const bool room = units <= capacity_units && offset <= capacity_units - units;
      if (!room) {
        if (t == 0) *failed = 1;
      } else if (mode == MODE_RAW) {
        uint4* row = payload + offset + (t >> 3) * 16 + (t & 7);
        row[0] = tile_now[t];
        row[8] = tile_now[t + THREADS];
      } else {
        uint4* to = payload + offset;
        if (t < units) to[t] = packed[t];
        if (t + THREADS < units) to[t + THREADS] = packed[t + THREADS];
      }
      if (t == 0) *entry = make_entry(mode, units, value, offset);
    }
    have_before = true;
    before_fits = fits;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
decode_tiles(const u64* __restrict__ table, const uint4* __restrict__ payload, u32 payload_units,
             const int4* __restrict__ planes, int num_planes, int num_frames, int shift, u32 limit,
             const u64* __restrict__ before, const u64* __restrict__ targets, u32* __restrict__ failed) {
  __shared__ uint4 packed[RAW_UNITS];
  __shared__ uint4 bottom[WARPS][8];  // column sums of each warp's rows
  __shared__ u32 sums[WARPS];

  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const Tile tile = find_tile(planes, num_planes, blockIdx.x);
  bool have_before = before != 0;
  u32 x[8];  // the tile as decoded last: unchanged keeps it, temporal adds to it
#pragma unroll
  for (int k = 0; k < 8; ++k) x[k] = 0;
  if (have_before) load_group(global_samples(before[tile.plane], before), tile, shift, x);

  for (int frame = 0; frame < num_frames; ++frame) {
    const u64 entry = table[(u64)blockIdx.x * num_frames + frame];
    const u32 offset = (u32)entry, info = (u32)(entry >> 32);
    const u32 value = info & 0xffff, units = info >> 16 & 0xfff, mode = info >> 28;
    const bool inside = units <= payload_units && offset <= payload_units - units;
    bool good;  // the same in all threads
    if (mode == MODE_CONSTANT) {
      good = units == 0 && offset == 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) x[k] = both(value);
    } else if (mode == MODE_UNCHANGED) {
      good = have_before && units == 0 && offset == 0;
    } else if (mode == MODE_RAW) {
      good = inside && units == RAW_UNITS;
      if (good) {
        const uint4* row = payload + offset + (t >> 3) * 16 + (t & 7);
        const uint4 p = row[0], q = row[8];
        x[0] = p.x, x[1] = p.y, x[2] = p.z, x[3] = p.w, x[4] = q.x, x[5] = q.y, x[6] = q.z, x[7] = q.w;
      }
    } else {
      good = inside && mode <= MODE_TEMPORAL && units >= WIDTHS_BYTES / UNIT_BYTES && units < RAW_UNITS &&
             (mode != MODE_TEMPORAL || have_before);
      if (good) {
        if (t < units) packed[t] = payload[offset + t];
        if (t + THREADS < units) packed[t + THREADS] = payload[offset + t + THREADS];
        __syncthreads();
        u32 width = ((const u8*)packed)[t >> 1] >> 4 * (t & 1) & 15;
        width = width == 15 ? 16 : width;
        const u32 inclusive = warp_inclusive(width);
        if (lane == 31) sums[warp] = inclusive;
        __syncthreads();
        const u32 mine = lane < WARPS ? sums[lane & 7] : 0;
        const u32 total = __reduce_add_sync(FULL_WARP, mine);
        const u32 earlier = __reduce_add_sync(FULL_WARP, lane < warp ? mine : 0);
        const u32 at = WIDTHS_BYTES / 2 + earlier + inclusive - width;
        good = (WIDTHS_BYTES + 2 * total + UNIT_BYTES - 1) / UNIT_BYTES == units;
        if (good) {
          u32 r[8];
          unpack_group((const u16*)packed, at, width, r);
          if (mode == MODE_LEFT || mode == MODE_GRADIENT) {
            int carry[2] = {0, 0};
#pragma unroll
            for (int k = 0; k < 8; ++k) {
              r[k] += (r[k] << 16) + both(carry[k / 4]);
              carry[k / 4] = high_of(r[k]);
            }
            const u32 own = (u32)carry[0] + ((u32)carry[1] << 16);
            u32 sum = own;
#pragma unroll
            for (int d = 1; d < 8; d *= 2) {
              const u32 other = __shfl_up_sync(FULL_WARP, sum, d, 8);
              if ((t & 7) >= d) sum += other;
            }
            sum -= own;
            const u32 first = both(low_of(sum)), second = both(high_of(sum));
#pragma unroll
            for (int k = 0; k < 4; ++k) r[k] += first, r[4 + k] += second;
          }
          if (mode == MODE_UP || mode == MODE_GRADIENT) {
            u32 column[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              r[4 + k] += r[k];
              column[k] = r[4 + k];
              u32 other = __shfl_up_sync(FULL_WARP, column[k], 8);
              if (lane >= 8) column[k] += other;
              other = __shfl_up_sync(FULL_WARP, column[k], 16);
              if (lane >= 16) column[k] += other;
            }
            if (lane >= 24) bottom[warp][lane - 24] = make_uint4(column[0], column[1], column[2], column[3]);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < 4; ++k) column[k] -= r[4 + k];
            for (int w = 0; w < warp; ++w) {
              const uint4 b = bottom[w][t & 7];
              column[0] += b.x, column[1] += b.y, column[2] += b.z, column[3] += b.w;
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) r[k] += column[k & 3];
          }
#pragma unroll
          for (int k = 0; k < 8; ++k) x[k] = r[k] + (mode == MODE_TEMPORAL ? x[k] : both(value));
        }
      }
    }
    if (!good) {
      if (t == 0) atomicOr(failed, 1u);
#pragma unroll
      for (int k = 0; k < 8; ++k) x[k] = 0;
    }
    have_before = true;
    store_group(global_samples(targets[(u64)frame * num_planes + tile.plane], targets), tile, shift, limit, x);
    __syncthreads();  // the next frame writes what slower threads may still read
  }
}

extern "C" __global__ void __launch_bounds__(256)
reorder(const u64* __restrict__ table, const u64* __restrict__ offsets, u64 num_tiles,
        const uint4* __restrict__ payload, u64* __restrict__ ordered_table, uint4* __restrict__ ordered) {
  const u64 tile = ((u64)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  const u32 lane = threadIdx.x & 31;
  if (tile >= num_tiles) return;
  const u64 entry = table[tile];
  const u32 units = (u32)(entry >> 48) & 0xfff;
  const u32 from = (u32)entry, to = units ? (u32)offsets[tile] : 0;
  for (u32 i = lane; i < units; i += 32) ordered[to + i] = payload[from + i];
  if (lane == 0) ordered_table[tile] = (entry & 0xffffffff00000000ull) | to;
}
