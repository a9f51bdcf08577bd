// Sparse matrix (compressed rows) times vector, one thread a row.
// qgpu: {"kernel": "spmv_csr", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "i32", "data": [0, 2, 2, 6, 8, 11, 12, 15, 19, 20, 22, 24, 27, 28, 28, 33, 34]}, {"type": "u8", "data": [0, 1, 3, 4, 5, 11, 2, 9, 11, 12, 14, 3, 4, 6, 8, 2, 8, 10, 11, 6, 6, 13, 1, 3, 7, 9, 11, 5, 5, 6, 7, 8, 11, 8]}, {"type": "i32", "data": [-14, -40, 33, 5, -4, 21, 2, 12, 0, -19, 0, 15, -27, 12, 40, -50, 26, -1, 13, 3, 13, 43, 30, 14, -40, -20, -12, -28, -48, 29, -2, -6, 12, -40]}, {"type": "i32", "data": [37, 27, -39, 29, 35, 45, 31, 15, -46, 30, -3, 6, 17, -37, 37, 8]}, {"type": "i32", "zeros": 16}, 16], "expect": [null, null, null, null, [-1598, 0, 1078, 282, -323, 435, -2413, 835, 93, -1188, 1216, -1272, -1260, 0, -943, 1840], null]}

__global__ void spmv_csr(const int *start, const unsigned char *column, const int *value, const int *x, int *y, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    int sum = 0;
    for (int k = start[row]; k < start[row + 1]; k++)
        sum += value[k] * x[column[k]];
    y[row] = sum;
}
