// One step of k-means in one dimension: sums and counts of each cluster in shared memory, then their means.
// qgpu: {"kernel": "kmeans_step", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"type": "i32", "data": [-66, -94, -35, -39, -53, -48, -96, -83, -80, -48, -77, -56, 88, 119, 37, 68, 74, 101, 71, 101, 76, 56, 103, 68, 103, 13, 119, 14, 31, 54, 105, 26]}, {"type": "i32", "data": [-50, 5, 80]}, 32, 3], "expect": [null, [-64, 24, 87], null, null]}

__global__ void kmeans_step(const int *data, int *centre, int n, int clusters)
{
    __shared__ int sum[8], count[8];
    int t = threadIdx.x;
    if (t < clusters)
        sum[t] = count[t] = 0;
    __syncthreads();
    if (t < n) {
        int best = 0;
        for (int k = 1; k < clusters; k++)
            if (abs(data[t] - centre[k]) < abs(data[t] - centre[best]))
                best = k;
        atomicAdd(&sum[best], data[t]);
        atomicAdd(&count[best], 1);
    }
    __syncthreads();
    if (t < clusters && count[t] > 0)
        centre[t] = sum[t] / count[t];
}
