// Quotients and remainders, signed and unsigned, the way C rounds them.
// qgpu: {"kernel": "divide", "grid": [1, 1, 1], "block": [12, 1, 1], "args": [{"type": "i32", "data": [7, -7, 7, -7, 2147483647, -2147483648, 100, 0, -1, 123456789, -123456789, 5]}, {"type": "i32", "data": [2, 2, -2, -2, 1, 3, 7, 5, 2147483647, 1000, 1000, 6]}, {"type": "i32", "zeros": 12}, {"type": "i32", "zeros": 12}, {"type": "u32", "zeros": 12}, {"type": "u32", "zeros": 12}], "expect": [null, null, [3, -3, -3, 3, 2147483647, -715827882, 14, 0, 0, 123456, -123456, 0], [1, -1, 1, -1, 0, -2, 2, 0, -1, 789, -789, 5], [3, 2147483644, 0, 0, 2147483647, 715827882, 14, 0, 2, 123456, 4171510, 0], [1, 1, 7, 4294967289, 0, 2, 2, 0, 1, 789, 507, 5]]}

__global__ void divide(const int *a, const int *b, int *quotient, int *remainder, unsigned *uquotient, unsigned *uremainder)
{
    int i = threadIdx.x;
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i];
    uquotient[i] = (unsigned)a[i] / (unsigned)b[i];
    uremainder[i] = (unsigned)a[i] % (unsigned)b[i];
}
