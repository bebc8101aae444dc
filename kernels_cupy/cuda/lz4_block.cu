// Standard LZ4 blocks, a chunk at a time. Format: lz4_Block_format.md of the lz4 project. Specification:
// reference/lz4_block.py.
//
// compress_chunks     one warp per chunk of LZ4_CHUNK_BYTES: 32 positions are looked up at once, the first match wins,
//                     is extended by the warp, 128 bytes a step, and emitted. output + chunk * stride, sizes[chunk].
//                     stride is at least n + n / 255 + 16 for a chunk of n bytes. input on a 4-byte boundary.
// decompress_chunks   one warp per chunk, from input + offsets[chunk], sizes[chunk] bytes; failed is set for a chunk
//                     that is malformed or does not give its length. Reads and writes stay inside, whatever is read.
// Grid: one block of 32 threads per chunk. Shared memory: 8 KB (hash table) to compress.
// Bound: latency of the serial chain of sequences; speed comes from many chunks at once. Not for the hot path.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL_WARP 0xffffffffu
#define HASH_BITS 12
#define NOWHERE 0xffffu

// Four bytes from any position; at + 3 is inside the chunk, and so is every aligned word that is touched.
static __device__ __forceinline__ u32 load4(const u8* chunk, u32 at) {
  const u32* words = (const u32*)(chunk + (at & ~3u));
  const u32 shift = 8 * (at & 3);
  return shift ? words[0] >> shift | words[1] << (32 - shift) : words[0];
}

// The bytes of a length beyond its nibble: 255s and a rest below 255. Returns where the next byte goes.
static __device__ __forceinline__ u32 put_length(u8* out, u32 at, u32 length) {
  if (length < 15) return at;
  const u32 rest = length - 15, full = rest / 255;
  for (u32 i = threadIdx.x; i < full; i += 32) out[at + i] = 255;
  if (threadIdx.x == 0) out[at + full] = (u8)(rest - 255 * full);
  return at + full + 1;
}

static __device__ __forceinline__ u32 put_literals(u8* out, u32 at, const u8* in, u32 from, u32 count, u32 low_nibble) {
  if (threadIdx.x == 0) out[at] = (u8)((count < 15 ? count : 15) << 4 | low_nibble);
  at = put_length(out, at + 1, count);
  for (u32 i = threadIdx.x; i < count; i += 32) out[at + i] = in[from + i];
  return at + count;
}

extern "C" __global__ void __launch_bounds__(32)
compress_chunks(const u8* __restrict__ input, u64 num_bytes, u8* __restrict__ output, u32 stride,
                u32* __restrict__ sizes) {
  __shared__ u16 table[1 << HASH_BITS];
  const u32 lane = threadIdx.x;
  const u64 start = (u64)blockIdx.x * LZ4_CHUNK_BYTES;
  const u8* in = input + start;
  u8* out = output + (u64)blockIdx.x * stride;
  const u32 size = (u32)(num_bytes - start < LZ4_CHUNK_BYTES ? num_bytes - start : LZ4_CHUNK_BYTES);
  for (u32 i = lane; i < 1 << HASH_BITS; i += 32) table[i] = NOWHERE;
  __syncwarp();

  u32 anchor = 0, position = 0, at = 0, misses = 0;
  while (size > LZ4_LAST_MATCH && position <= size - LZ4_LAST_MATCH - 1) {
    const u32 mine = position + lane;
    const bool valid = mine <= size - LZ4_LAST_MATCH - 1;
    const u32 value = valid ? load4(in, mine) : 0;
    const u32 slot = value * 2654435761u >> (32 - HASH_BITS);
    u32 candidate = valid ? table[slot] : NOWHERE;  // NOWHERE is beyond every position
    // The nearest earlier lane with the same four bytes is the better match, and not in the table yet.
    const u32 earlier = __match_any_sync(FULL_WARP, value) & ((1u << lane) - 1);
    if (valid && earlier) candidate = position + 31 - __clz((int)earlier);
    const bool found = candidate != NOWHERE && load4(in, candidate) == value;
    const u32 matches = __ballot_sync(FULL_WARP, found);
    // Positions up to the match are entered; those behind it will be looked up again, and must not find themselves.
    // Of lanes with one slot the last writes, so that the result does not depend on the order of stores.
    const u32 entered = matches ? matches ^ (matches - 1) : FULL_WARP;
    const u32 rivals = __match_any_sync(FULL_WARP, valid ? slot : (1u << HASH_BITS) + lane) & entered;
    if (valid && rivals >> lane == 1) table[slot] = (u16)mine;
    __syncwarp();
    if (!matches) {
      position += 32 * (1 + (misses++ >> 3));
      continue;
    }
    misses = 0;
    const int first = __ffs((int)matches) - 1;
    const u32 from = __shfl_sync(FULL_WARP, candidate, first);
    position += first;
    u32 length = LZ4_MIN_MATCH;
    const u32 end = size - LZ4_LAST_LITERALS;
    for (;;) {
      const u32 here = position + length + 4 * lane;
      u32 equal = 0;
      if (here + 4 <= end) {
        const u32 difference = load4(in, here) ^ load4(in, from + length + 4 * lane);
        equal = difference ? (u32)(__ffs((int)difference) - 1) / 8 : 4;
      } else {
        while (here + equal < end && in[here + equal] == in[from + length + 4 * lane + equal]) ++equal;
      }
      const u32 ended = __ballot_sync(FULL_WARP, equal < 4);
      if (ended) {
        const int last = __ffs((int)ended) - 1;
        length += 4 * last + __shfl_sync(FULL_WARP, equal, last);
        break;
      }
      length += 128;
    }
    const u32 code = length - LZ4_MIN_MATCH;
    at = put_literals(out, at, in, anchor, position - anchor, code < 15 ? code : 15);
    if (lane == 0) out[at] = (u8)(position - from), out[at + 1] = (u8)((position - from) >> 8);
    at = put_length(out, at + 2, code);
    position += length;
    anchor = position;
  }
  at = put_literals(out, at, in, anchor, size - anchor, 0);
  if (lane == 0) sizes[blockIdx.x] = at;
}

extern "C" __global__ void __launch_bounds__(32)
decompress_chunks(const u8* __restrict__ input, const u64* __restrict__ offsets, const u32* __restrict__ sizes,
                  u8* output, u64 num_bytes, u32* __restrict__ failed) {
  const u32 lane = threadIdx.x;
  const u64 start = (u64)blockIdx.x * LZ4_CHUNK_BYTES;
  const u8* in = input + offsets[blockIdx.x];
  u8* out = output + start;
  const u32 given = sizes[blockIdx.x];
  const u32 size = (u32)(num_bytes - start < LZ4_CHUNK_BYTES ? num_bytes - start : LZ4_CHUNK_BYTES);
  u32 read = 0, written = 0;
  bool good = false;
  // All lanes walk the tokens together; the copies are shared out. Lengths stay below 2^32: a chunk of g bytes can
  // name at most 255 * g, and the launcher gives none of more than 2 * LZ4_CHUNK_BYTES.
  while (read < given) {
    const u32 token = in[read++];
    u32 literals = token >> 4;
    if (literals == 15) {
      u32 byte = 255;
      while (byte == 255 && read < given) literals += byte = in[read++];
      if (byte == 255) break;
    }
    if (literals > given - read || literals > size - written) break;
    for (u32 i = lane; i < literals; i += 32) out[written + i] = in[read + i];
    read += literals, written += literals;
    if (read == given) {
      good = written == size;
      break;
    }
    if (given - read < 2) break;
    const u32 distance = in[read] | (u32)in[read + 1] << 8;
    read += 2;
    if (distance == 0 || distance > written) break;
    u32 length = token & 15;
    if (length == 15) {
      u32 byte = 255;
      while (byte == 255 && read < given) length += byte = in[read++];
      if (byte == 255) break;
    }
    length += LZ4_MIN_MATCH;
    if (length > size - written) break;
    __syncwarp();  // what the copy reads, other lanes wrote
    for (u32 i = lane; i < length; i += 32)
      out[written + i] = out[written - distance + (distance < length ? i % distance : i)];
    written += length;
    __syncwarp();
  }
  if (!good && lane == 0) failed[blockIdx.x] = 1;
}
