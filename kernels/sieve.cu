// The sieve of Eratosthenes in a bitmap of shared memory: each thread strikes out the multiples of one number.
// qgpu: {"kernel": "sieve", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "u32", "zeros": 6}, 192], "expect": [[2693408940, 673221152, 34112136, 2147625122, 547359240, 2150113416], null]}

__global__ void sieve(unsigned *primes, int n)
{
    __shared__ unsigned composite[6];
    int t = threadIdx.x;
    if (t < n / 32)
        composite[t] = t == 0 ? 3 : 0;
    __syncthreads();
    int step = t + 2;
    if (step * step < n)
        for (int k = step * step; k < n; k += step)
            atomicOr(&composite[k / 32], 1u << k % 32);
    __syncthreads();
    if (t < n / 32)
        primes[t] = ~composite[t];
}
