// Dot product: each lane multiplies, a shuffle reduction adds, lane 0 stores.
// qgpu: {"kernel": "dot", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [1, 2, 3]}, {"type": "i32", "data": [4, 5, 6]}, {"type": "i32", "zeros": 1}], "expect": [[1, 2, 3], [4, 5, 6], [32]]}

__global__ void dot(const int *a, const int *b, int *out)
{
    int i = threadIdx.x;
    int sum = i < 3 ? a[i] * b[i] : 0;
    sum += __shfl_down_sync(0xffffffff, sum, 2, 4);
    sum += __shfl_down_sync(0xffffffff, sum, 1, 4);
    if (i == 0)
        *out = sum;
}
