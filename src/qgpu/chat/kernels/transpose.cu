// Transposes a matrix of at most 4 rows and 8 columns.

__global__ void transpose(const int *a, int *out, int rows, int columns)
{
    int column = threadIdx.x, row = threadIdx.y;
    if (row < rows && column < columns)
        out[column * rows + row] = a[row * columns + column];
}
