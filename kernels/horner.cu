// A polynomial at eight points by Horner's rule, highest power first.
// qgpu: {"kernel": "horner", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "i32", "data": [2, -3, 0, 5, -7]}, {"type": "i32", "data": [0, 1, -1, 2, -2, 10, -10, 1000]}, {"type": "i32", "zeros": 8}, 5], "expect": [[2, -3, 0, 5, -7], [0, 1, -1, 2, -2, 10, -10, 1000], [-7, -3, -7, 11, 39, 17043, 22943, -159787647], null]}

__global__ void horner(const int *coefficients, const int *x, int *y, int n)
{
    int i = threadIdx.x;
    int at = x[i];
    int value = 0;
    for (int k = 0; k < n; k++)
        value = value * at + coefficients[k];
    y[i] = value;
}
