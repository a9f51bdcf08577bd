// Product of two n x n matrices in 4 x 4 tiles of shared memory; n is a multiple of 4.
// qgpu: {"kernel": "matmul_tiled", "grid": [2, 2, 1], "block": [4, 4, 1], "args": [{"type": "i32", "data": [-96, 21, -71, 96, 1, -63, 76, -88, -64, -71, 38, -40, 83, 94, -64, -62, 90, -91, 70, -84, -65, -40, 38, 88, 15, 35, 6, -47, 52, -76, -69, -94, 98, 4, -12, -49, -47, -15, 1, -6, 53, -36, -46, 86, -44, 7, 50, 70, 41, -84, -86, -53, -8, -65, -47, -62, -3, -92, -77, 89, 36, 13, 67, -44]}, {"type": "i32", "data": [-80, -45, -62, -22, 79, -39, 28, -93, 85, -90, -74, -16, 31, -15, -85, 34, 77, 21, -5, 54, -99, 39, 94, -67, 35, -97, 25, 88, 98, -48, -26, -48, 15, -79, -14, -69, -90, 35, -71, 87, -59, 13, -94, 11, -87, -90, 43, -9, -41, -58, 20, -20, 87, 27, -57, 37, 90, -23, 46, 48, 48, -78, 98, -91]}, {"type": "i32", "zeros": 64}, 8], "expect": [null, null, [54, -11655, 10533, -116, 17283, 10673, -29379, 21265, -6646, 13751, -6098, -5313, -39131, 4516, 4576, 12561, -4738, 14145, 8182, 3373, 5987, 104, 28372, -24019, 225, 1928, -4013, -12258, -11513, 15509, -13008, 12858, -10540, 3329, -5725, -4410, 9586, -1798, 4597, -9193, -4655, -9396, 5936, 9967, 27114, -13729, 5419, -15610, -18835, 12989, 5209, -11065, 3265, 7988, -4042, 5429, -17328, -7384, 7194, -581, 12602, -447, -11944, 7536], null]}

#define TILE 4

__global__ void matmul_tiled(const int *a, const int *b, int *c, int n)
{
    __shared__ int a_tile[TILE][TILE], b_tile[TILE][TILE];
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    int sum = 0;
    for (int first = 0; first < n; first += TILE) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
