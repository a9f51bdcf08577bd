// Blurs a grey image with a 3 x 3 kernel in constant memory; the edge pixels are repeated outwards.
// qgpu: {"kernel": "convolution", "grid": [2, 2, 1], "block": [6, 4, 1], "args": [{"type": "u8", "data": [195, 170, 118, 85, 197, 145, 141, 196, 4, 127, 9, 224, 79, 76, 163, 85, 131, 30, 61, 16, 221, 144, 110, 37, 184, 243, 64, 9, 63, 50, 73, 91, 27, 136, 162, 115, 13, 93, 222, 29, 154, 204, 74, 54, 47, 208, 11, 252, 202, 117, 11, 43, 69, 39, 234, 205, 217, 143, 14, 7, 237, 164, 90, 71, 33, 20, 55, 65, 211, 43]}, {"type": "u8", "zeros": 70}, 10, 7], "expect": [null, [157, 156, 121, 116, 147, 147, 140, 116, 73, 79, 129, 147, 113, 103, 140, 143, 110, 74, 53, 51, 136, 129, 96, 99, 147, 146, 86, 60, 69, 53, 131, 114, 86, 95, 135, 126, 83, 107, 131, 87, 107, 108, 82, 81, 125, 138, 124, 148, 143, 91, 106, 101, 79, 79, 121, 145, 140, 134, 104, 60, 169, 133, 92, 74, 74, 78, 85, 107, 111, 66], null, null]}

__constant__ int weights[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};

__device__ int clamp(int v, int high)
{
    return min(max(v, 0), high);
}

__global__ void convolution(const unsigned char *in, unsigned char *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += weights[dy + 1][dx + 1] * in[clamp(y + dy, height - 1) * width + clamp(x + dx, width - 1)];
    out[y * width + x] = (sum + 8) / 16;
}
