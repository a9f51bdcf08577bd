// Division in 64 bits: signed quotient, unsigned remainder.
// qgpu: {"kernel": "divide_long", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i64", "data": [1000000000000000000, -1000000000000000000, -7, 9223372036854775807]}, {"type": "i64", "data": [1000000007, 12345, 2, -3]}, {"type": "i64", "zeros": 4}, {"type": "u64", "zeros": 4}], "expect": [null, null, [999999993, -81004455245038, -3, -3074457345618258602], [49, 8091, 1, 9223372036854775807]]}

__global__ void divide_long(const long long *a, const long long *b, long long *quotient, unsigned long long *remainder)
{
    int i = threadIdx.x;
    quotient[i] = a[i] / b[i];
    remainder[i] = (unsigned long long)a[i] % (unsigned long long)b[i];
}
