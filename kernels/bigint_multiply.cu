// Product of two 128-bit integers: each thread sums one column of partial products in 96 bits, one thread carries.
// qgpu: {"kernel": "bigint_multiply", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [3004710619, 2607518976, 3525622401, 2972446924]}, {"type": "u32", "data": [2280772534, 3511048879, 2199101195, 2446757226]}, {"type": "u32", "zeros": 8}, 4], "expect": [null, null, [4164300978, 3170097865, 1987644900, 1123141621, 2391619892, 3058891634, 952634738, 1693343742], null]}

__global__ void bigint_multiply(const unsigned *a, const unsigned *b, unsigned *product, int n)
{
    __shared__ unsigned column[8][3];
    int c = threadIdx.x;
    unsigned long long low = 0;
    unsigned high = 0;
    for (int i = max(0, c - n + 1); i <= min(c, n - 1); i++) {
        unsigned long long t = (unsigned long long)a[i] * b[c - i];
        low += t;
        high += low < t;
    }
    column[c][0] = (unsigned)low;
    column[c][1] = (unsigned)(low >> 32);
    column[c][2] = high;
    __syncthreads();
    if (c == 0) {
        unsigned long long carry = 0;
        for (int k = 0; k < 2 * n; k++) {
            carry += column[k][0];
            if (k >= 1)
                carry += column[k - 1][1];
            if (k >= 2)
                carry += column[k - 2][2];
            product[k] = (unsigned)carry;
            carry >>= 32;
        }
    }
}
