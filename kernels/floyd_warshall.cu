// All shortest paths of a graph by Floyd and Warshall: six rounds in shared memory, one thread for each pair of nodes.
// qgpu: {"kernel": "floyd_warshall", "grid": [1, 1, 1], "block": [6, 6, 1], "args": [{"type": "i32", "data": [0, 18, 1000000, 13, 1, 19, 6, 0, 1000000, 1000000, 13, 1000000, 1000000, 1000000, 0, 11, 1000000, 1000000, 3, 1000000, 11, 0, 10, 13, 16, 1000000, 9, 1000000, 0, 1000000, 14, 1000000, 1000000, 1000000, 1000000, 0]}], "expect": [[0, 18, 10, 13, 1, 19, 6, 0, 16, 19, 7, 25, 14, 32, 0, 11, 15, 24, 3, 21, 11, 0, 4, 13, 16, 34, 9, 20, 0, 33, 14, 32, 24, 27, 15, 0]]}

__global__ void floyd_warshall(int *distance)
{
    __shared__ int d[6][6];
    int i = threadIdx.y, j = threadIdx.x;
    d[i][j] = distance[6 * i + j];
    __syncthreads();
    for (int k = 0; k < 6; k++) {
        int through = d[i][k] + d[k][j];
        __syncthreads();
        if (through < d[i][j])
            d[i][j] = through;
        __syncthreads();
    }
    distance[6 * i + j] = d[i][j];
}
