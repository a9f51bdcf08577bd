// Sum of a block: shuffles within each warp, shared memory between the warps.
// qgpu: {"kernel": "reduce_warp", "grid": [1, 1, 1], "block": [128, 1, 1], "args": [{"type": "i32", "data": [957, 767, 941, 738, -885, -813, -827, -261, 711, -654, 507, 656, 371, 748, -369, -485, 240, -566, 242, -927, 190, 395, -676, -118, 307, -195, 645, 480, 761, 42, 944, -239, 114, 916, -89, 28, -451, 845, -927, 783, -944, -255, -48, 908, -348, 859, -222, -133, 826, 810, 76, -664, 147, -637, -517, -528, -952, -639, -335, -645, -721, 44, 44, -264, 52, 381, 146, -628, 830, -88, 631, -151, 504, 75, 856, 860, 562, -255, 617, 215, -276, -259, 759, 969, -88, -670, 955, 544, -182, 464, 512, -56, 341, 86, -489, 3, -429, 894, 20, 25, 55, 702, 630, -276, 355, 808, -69, 842, 849, -56, -282, 162, 486, 884, 141, 482, -65, -4, 349, -546, 926, -336, 668, 432, 710, -660, 795, 859, 262, -451, 583, 866, -18, -367, -379, 960, 636, 446, 702, 32, 151, 60, 39, 334, 261, 204, -168, -362, 496, -575]}, {"type": "i32", "zeros": 1}, 150], "expect": [null, [20991], null]}

__device__ int warp_sum(int v)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__global__ void reduce_warp(const int *in, int *out, int n)
{
    __shared__ int partial[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += in[i];
    sum = warp_sum(sum);
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / warpSize ? partial[lane] : 0;
        sum = warp_sum(sum);
        if (lane == 0)
            *out = sum;
    }
}
