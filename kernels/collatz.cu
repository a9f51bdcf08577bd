// Collatz steps down to 1: lanes leave the loop at different times.
// qgpu: {"kernel": "collatz", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [1, 2, 3, 6, 7, 9, 12, 19]}, {"type": "i32", "zeros": 8}], "expect": [[1, 2, 3, 6, 7, 9, 12, 19], [0, 1, 7, 8, 16, 19, 9, 20]]}

__global__ void collatz(const unsigned *start, int *steps)
{
    int i = threadIdx.x;
    unsigned x = start[i];
    int count = 0;
    while (x != 1) {
        if (x & 1)
            x = 3 * x + 1;
        else
            x >>= 1;
        count++;
    }
    steps[i] = count;
}
