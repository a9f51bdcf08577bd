// Product of two 3x3 matrices: a thread computes one row.
// qgpu: {"kernel": "matmul3", "grid": [1, 1, 1], "block": [3, 1, 1], "args": [{"type": "i32", "data": [1, 2, 3, 4, 5, 6, 7, 8, 9]}, {"type": "i32", "data": [9, -8, 7, -6, 5, -4, 3, -2, 1]}, {"type": "i32", "zeros": 9}], "expect": [[1, 2, 3, 4, 5, 6, 7, 8, 9], [9, -8, 7, -6, 5, -4, 3, -2, 1], [6, -4, 2, 24, -19, 14, 42, -34, 26]]}

__global__ void matmul3(const int *a, const int *b, int *c)
{
    int row = threadIdx.x * 3;
    for (int column = 0; column < 3; column++) {
        int sum = 0;
        for (int k = 0; k < 3; k++)
            sum += a[row + k] * b[3 * k + column];
        c[row + column] = sum;
    }
}
