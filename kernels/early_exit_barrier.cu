// Threads beyond the end leave before the barrier; the others wait for one another and swap neighbours.
// qgpu: {"kernel": "early_exit_barrier", "grid": [2, 1, 1], "block": [40, 1, 1], "args": [{"type": "i32", "data": [92, -48, 69, -47, 11, 54, 40, -85, -67, 99, 96, 23, -89, 87, 75, 60, 29, -56, 63, 10, -37, 92, 5, 84, -48, 78, -92, 71, -43, -63, -66, -44, 53, 24, 96, 0, -6, -37, 50, -92, -92, 89, -24, 40, 38, -68, 31, -88, 65, -98, 19, 54, 69, 44, -19, -18, 71, 9, 11, 78, -48, -85, -35, -49, 60, -1, 10, 56, 33, -60]}, {"type": "i32", "zeros": 70}, 70], "expect": [null, [-48, 92, -47, 69, 54, 11, -85, 40, 99, -67, 23, 96, 87, -89, 60, 75, -56, 29, 10, 63, 92, -37, 84, 5, 78, -48, 71, -92, -63, -43, -44, -66, 24, 53, 0, 96, -37, -6, -92, 50, 89, -92, 40, -24, -68, 38, -88, 31, -98, 65, 54, 19, 44, 69, -18, -19, 9, 71, 78, 11, -85, -48, -49, -35, -1, 60, 56, 10, -60, 33], null]}

__global__ void early_exit_barrier(const int *in, int *out, int n)
{
    __shared__ int tile[40];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[threadIdx.x ^ 1];
}
