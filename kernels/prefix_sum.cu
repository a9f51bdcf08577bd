// Inclusive prefix sum: four elements a step with shuffles, the last lane's sum carried on. n is a multiple of 4.
// qgpu: {"kernel": "prefix_sum", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, -3]}, {"type": "i32", "zeros": 16}, 16], "expect": [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, -3], [3, 4, 8, 9, 14, 23, 25, 31, 36, 39, 44, 52, 61, 68, 77, 74], null]}

__global__ void prefix_sum(const int *in, int *out, int n)
{
    int lane = threadIdx.x;
    int carry = 0;
    for (int i = lane; i < n; i += 4) {
        int sum = in[i];
        int left = __shfl_up_sync(0xffffffff, sum, 1, 4);
        if (lane >= 1)
            sum += left;
        left = __shfl_up_sync(0xffffffff, sum, 2, 4);
        if (lane >= 2)
            sum += left;
        sum += carry;
        out[i] = sum;
        carry = __shfl_sync(0xffffffff, sum, 3, 4);
    }
}
