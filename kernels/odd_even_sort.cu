// Odd-even transposition sort: in each round neighbours compare and swap, in even and odd places by turns.
// qgpu: {"kernel": "odd_even_sort", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "i32", "data": [14, 14, -24, -35, 24, 69, -77, -1, 92, -79, -80, 69, -48, -25, -81, 61]}, 16], "expect": [[-81, -80, -79, -77, -48, -35, -25, -24, -1, 14, 14, 24, 61, 69, 69, 92], null]}

__global__ void odd_even_sort(int *data, int n)
{
    for (int round = 0; round < n; round++) {
        int i = 2 * threadIdx.x + (round & 1);
        if (i + 1 < n && data[i] > data[i + 1]) {
            int t = data[i];
            data[i] = data[i + 1];
            data[i + 1] = t;
        }
        __syncthreads();
    }
}
