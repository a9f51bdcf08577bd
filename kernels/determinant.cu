// Determinants of 4 x 4 matrices by Bareiss: elimination in which every division is exact. Each thread has a matrix of its own.
// qgpu: {"kernel": "determinant", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [4, 4, -6, -7, 2, 5, 2, -8, -4, 9, 2, 1, -1, 1, 0, 6, 9, 3, -2, -7, 7, 6, -5, 4, 7, -2, -9, 3, 2, 8, 7, -9, -5, 6, -6, -1, -6, -5, 5, -7, -6, 3, 0, -4, 2, 5, 4, 6, 1, 2, 3, 4, 2, 4, 6, 8, 0, 1, 0, 1, 5, 5, 5, 5]}, {"type": "i32", "zeros": 4}], "expect": [null, [-1450, 733, 822, 0]]}

__global__ void determinant(const int *matrices, int *out)
{
    int m[4][4];
    for (int i = 0; i < 16; i++)
        m[i / 4][i % 4] = matrices[16 * threadIdx.x + i];
    int sign = 1, previous = 1;
    for (int k = 0; k < 3; k++) {
        int pivot = k;
        while (pivot < 4 && m[pivot][k] == 0)
            pivot++;
        if (pivot == 4) {
            sign = 0;
            break;
        }
        if (pivot != k) {
            sign = -sign;
            for (int j = k; j < 4; j++) {
                int t = m[k][j];
                m[k][j] = m[pivot][j];
                m[pivot][j] = t;
            }
        }
        for (int i = k + 1; i < 4; i++)
            for (int j = k + 1; j < 4; j++)
                m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) / previous;
        previous = m[k][k];
    }
    out[threadIdx.x] = sign * m[3][3];
}
