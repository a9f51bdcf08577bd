// Histogram of bytes by their upper half: a block counts in shared memory and adds its counts to the others'.
// qgpu: {"kernel": "histogram", "grid": [2, 1, 1], "block": [32, 1, 1], "args": [{"type": "u8", "data": [132, 148, 95, 118, 75, 115, 95, 66, 36, 109, 150, 15, 220, 64, 7, 141, 75, 43, 134, 230, 223, 71, 131, 182, 119, 249, 219, 186, 220, 160, 60, 177, 134, 229, 69, 225, 227, 90, 150, 103, 91, 182, 129, 190, 235, 134, 143, 202, 66, 251, 120, 120, 99, 187, 67, 37, 220, 237, 199, 1, 217, 22, 115, 72, 254, 227, 129, 81, 211, 128, 179, 103, 191, 70, 121, 254, 108, 21, 19, 183, 174, 93, 151, 98, 84, 57, 115, 85, 35, 219, 19, 225, 175, 47, 1, 64, 159, 62, 208, 154, 137, 39, 240, 187, 18, 2, 163, 171, 79, 254, 242, 114, 106, 151, 16, 192, 80, 74, 132, 217]}, {"type": "u32", "zeros": 16}, 120], "expect": [null, [5, 6, 6, 3, 13, 9, 7, 9, 12, 7, 5, 10, 3, 10, 8, 7], null]}

__global__ void histogram(const unsigned char *in, unsigned *bins, int n)
{
    __shared__ unsigned own[16];
    if (threadIdx.x < 16)
        own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[in[i] >> 4], 1u);
    __syncthreads();
    if (threadIdx.x < 16)
        atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
