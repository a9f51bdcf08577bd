// One function sums through a pointer that leads to shared memory for some threads and to global memory for others.
// qgpu: {"kernel": "generic_pointer", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "i32", "data": [-506, 153, -799, -311, 364, 973, -501, 283, 279, -902, -685, 63, 87, 382, 60, -397, 192, -869, 101, 715, 609, 839, -237, -308, 446, -782, 703, -808, 832, 632, -52, -190]}, {"type": "i32", "zeros": 16}], "expect": [null, [-506, 279445, -936, 891027, -456, 2145437, -467, 2867706, 279, 1079225, -538, 1355660, 1049, 1695729, 1874, 1601821]]}

__device__ __noinline__ int sum_of(const int *p, int n, int stride)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i * stride];
    return sum;
}

__global__ void generic_pointer(const int *in, int *out)
{
    __shared__ int squares[16];
    int t = threadIdx.x;
    squares[t] = in[t] * in[t];
    __syncthreads();
    const int *from = t % 2 ? squares + t / 2 : in + t;
    out[t] = sum_of(from, 1 + t % 8, t % 2 ? 1 : 2);
}
