// One-dimensional stencil of radius 2: a block's elements and their neighbours are fetched into shared memory once.
// qgpu: {"kernel": "stencil_halo", "grid": [2, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [-47, -34, -2, -94, -51, -44, 1, 86, 44, -99, 65, -35, 73, -9, 81, -55, -94, -25, 72, -82, -7, -98, -73, 8, -11, 8, 92, -76, 0, 31, 48, -24, -32, 83, -83, 17, 10, -35, 47, -18, 44, -100, 85, 81, -89, 66, -52, 58, 58, 23, 58, 92, 62, -3, -20, -28, -1, 67, -11, 22]}, {"type": "i32", "zeros": 60}, 60], "expect": [null, [-83, -177, -228, -225, -190, -102, 36, -12, 97, 61, 48, -5, 175, 55, -4, -102, -21, -184, -136, -140, -188, -252, -181, -166, 24, 21, 13, 55, 95, -21, 23, 106, -8, -39, -5, -8, -44, 21, 48, -62, 58, 92, 21, 43, 91, 64, 41, 153, 145, 289, 293, 232, 189, 103, 10, 15, 7, 49, 77, 78], null]}

#define RADIUS 2

__global__ void stencil_halo(const int *in, int *out, int n)
{
    __shared__ int tile[32 + 2 * RADIUS];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int t = threadIdx.x + RADIUS;
    tile[t] = i < n ? in[i] : 0;
    if (threadIdx.x < RADIUS) {
        tile[t - RADIUS] = i >= RADIUS ? in[i - RADIUS] : 0;
        tile[t + blockDim.x] = i + blockDim.x < n ? in[i + blockDim.x] : 0;
    }
    __syncthreads();
    int sum = 0;
    for (int d = -RADIUS; d <= RADIUS; d++)
        sum += tile[t + d];
    if (i < n)
        out[i] = sum;
}
