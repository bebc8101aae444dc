// RGB to 10-bit limited-range Y'CbCr, planar, in one pass. Specification: reference/color.py.
//
// rgb_to_yuv   one block of 256 threads per 64 x 16 luma samples of a frame
//   in   rgb (frames, 3, height, width) float32
//        parameters: 0-8 gamut matrix, rows first; 9 Kr, 10 Kg, 11 Kb; 12 Cb and 13 Cr scale; 14 gamma; luma code 15
//        scale, 16 offset; chroma code 17 scale, 18 offset; 19-82 Bayer thresholds
//        flags: 1 convert to BT.2020, 2 keep chroma at full size (4:4:4), 4 ordered dither
//   out  y (frames, height, width), cb, cr (frames, chroma height, chroma width) u16
// Grid: (ceil(width / 64), ceil(height / 16), frames). Shared memory: 9.2 KB, chroma of the block and a border of one
// sample above, below and left, which the 4:2:0 filter reads.
// Bound: device memory, 12 bytes in and 3 (4:2:0) or 6 (4:4:4) out a pixel.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define WIDE (COLOR_COLUMNS + 1)
#define HIGH (COLOR_ROWS + 2)
#define TO_BT2020 1
#define FULL_CHROMA 2
#define DITHER 4

static __device__ __forceinline__ u32 code_of(float value, const float* thresholds, int row, int column, int flags) {
  const float whole = flags & DITHER ? floorf(value + thresholds[(row & 7) * 8 + (column & 7)]) : rintf(value);
  return (u32)fminf(fmaxf(whole, 0.0f), 1023.0f);
}

// x to the power of the exponent, on [0, 1].
static __device__ __forceinline__ float power(float x, float exponent) {
  return x > 0.0f ? exp2f(exponent * log2f(x)) : 0.0f;
}

extern "C" __global__ void __launch_bounds__(256)
rgb_to_yuv(const float* __restrict__ rgb, const float* __restrict__ parameters, int height, int width, int flags,
           u16* __restrict__ y, u16* __restrict__ cb, u16* __restrict__ cr) {
  __shared__ float blue[HIGH][WIDE], red[HIGH][WIDE];
  const int left = blockIdx.x * COLOR_COLUMNS, top = blockIdx.y * COLOR_ROWS;
  const u64 pixels = (u64)height * width;
  const float* frame = rgb + 3 * pixels * blockIdx.z;
  const float* thresholds = parameters + 19;
  const float gamma = parameters[14], y_scale = parameters[15], y_offset = parameters[16];
  const float c_scale = parameters[17], c_offset = parameters[18];
  const float kr = parameters[9], kg = parameters[10], kb = parameters[11];
  const float cb_scale = parameters[12], cr_scale = parameters[13];
  const bool full = flags & FULL_CHROMA;

  for (int i = threadIdx.x; i < WIDE * HIGH; i += 256) {
    const int local_row = i / WIDE - 1, local_column = i % WIDE - 1;
    // An index outside the picture is its edge; what lies further off is not read by the filter.
    const int row = min(max(top + local_row, 0), height - 1);
    const int column = min(max(left + local_column, 0), width - 1);
    const u64 at = (u64)row * width + column;
    float r = __saturatef(frame[at]), g = __saturatef(frame[at + pixels]), b = __saturatef(frame[at + 2 * pixels]);
    if (flags & TO_BT2020) {
      r = power(r, gamma), g = power(g, gamma), b = power(b, gamma);
      const float x = __saturatef(parameters[0] * r + parameters[1] * g + parameters[2] * b);
      const float z = __saturatef(parameters[3] * r + parameters[4] * g + parameters[5] * b);
      const float w = __saturatef(parameters[6] * r + parameters[7] * g + parameters[8] * b);
      r = power(x, 1.0f / gamma), g = power(z, 1.0f / gamma), b = power(w, 1.0f / gamma);
    }
    const float luma = kr * r + kg * g + kb * b;
    const float blue_here = (b - luma) * cb_scale, red_here = (r - luma) * cr_scale;
    blue[local_row + 1][local_column + 1] = blue_here;
    red[local_row + 1][local_column + 1] = red_here;
    const bool inside = local_row >= 0 && local_row < COLOR_ROWS && local_column >= 0 && top + local_row < height &&
                        left + local_column < width;
    if (inside) {
      const u64 to = pixels * blockIdx.z + at;
      y[to] = (u16)code_of(y_scale * luma + y_offset, thresholds, row, column, flags);
      if (full) {
        cb[to] = (u16)code_of(c_scale * blue_here + c_offset, thresholds, row, column, flags);
        cr[to] = (u16)code_of(c_scale * red_here + c_offset, thresholds, row, column, flags);
      }
    }
  }
  if (full) return;
  __syncthreads();

  const int chroma_width = (width + 1) / 2, chroma_height = (height + 1) / 2;
  const int local_column = threadIdx.x % (COLOR_COLUMNS / 2), local_row = threadIdx.x / (COLOR_COLUMNS / 2);
  const int column = left / 2 + local_column, row = top / 2 + local_row;
  if (column >= chroma_width || row >= chroma_height) return;
  const float vertical[4] = {0.125f, 0.375f, 0.375f, 0.125f};
  float sum_blue = 0, sum_red = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float* b = &blue[2 * local_row + k][2 * local_column];
    const float* r = &red[2 * local_row + k][2 * local_column];
    sum_blue += vertical[k] * (0.25f * b[0] + 0.5f * b[1] + 0.25f * b[2]);
    sum_red += vertical[k] * (0.25f * r[0] + 0.5f * r[1] + 0.25f * r[2]);
  }
  const u64 to = ((u64)blockIdx.z * chroma_height + row) * chroma_width + column;
  cb[to] = (u16)code_of(c_scale * sum_blue + c_offset, thresholds, row, column, flags);
  cr[to] = (u16)code_of(c_scale * sum_red + c_offset, thresholds, row, column, flags);
}
