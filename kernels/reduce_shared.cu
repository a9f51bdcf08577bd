// Sum by a tree in shared memory: each thread block leaves one partial sum.
// qgpu: {"kernel": "reduce_shared", "grid": [2, 1, 1], "block": [64, 1, 1], "args": [{"type": "i32", "data": [-724, 166, 736, 644, 565, -870, -477, -758, 15, 559, -79, -32, 335, -222, 616, -570, -807, 0, -941, 830, 712, -201, -113, 245, 562, 572, -995, 426, -87, -454, 478, 643, -531, 211, 936, -790, 847, -349, -937, -954, -947, 331, 109, -981, 924, 805, -219, 406, -556, 985, -135, 487, -940, 81, -545, 565, -103, 924, 16, 133, -522, -292, -527, 387, -551, 559, -58, 951, -406, 898, -955, -147, 716, 877, 140, 889, 316, -795, -619, 289, 483, 762, -392, -752, 522, -318, 835, 478, 994, 457, 26, 918, 981, -135, 40, 700, 865, 373, -611, -378, -418, 204, 994, 808, 23, 734, 927, 35, -194, 207, 748, -929, -16, -502, 524, 634, -172, -151, 362, -645]}, {"type": "i32", "zeros": 2}, 120], "expect": [null, [-407, 11125], null]}

__global__ void reduce_shared(const int *in, int *out, int n)
{
    __shared__ int tile[64];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step >>= 1) {
        if (t < step)
            tile[t] += tile[t + step];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = tile[0];
}
