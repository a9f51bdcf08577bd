// Adds a product of two tiles of matrices, (rows, inner) by (inner, columns), to totals as in dot, one thread an element.

__global__ void matmul(const int *a, const int *b, long long *total, int *high, int *over, int rows, int inner, int columns)
{
    int column = threadIdx.x, row = threadIdx.y;
    if (row < rows && column < columns) {
        int at = row * columns + column, top = high[at];
        long long sum = total[at];
#pragma unroll 1
        for (int k = 0; k < inner; k++) {
            long long p = (long long)a[row * inner + k] * b[k * columns + column];
            sum += p;
            top += (int)(p >> 48);
        }
        total[at] = sum;
        high[at] = top;
        over[at] = sum != (int)sum || top > 4096 || top < -4096;
    }
}
