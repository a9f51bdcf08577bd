// Exclusive prefix sum by Blelloch: up the tree, clear the root, down the tree. A thread has two elements.
// qgpu: {"kernel": "scan_blelloch", "grid": [1, 1, 1], "block": [32, 1, 1], "shared_bytes": 256, "args": [{"type": "u32", "data": [585, 33, 439, 494, 591, 15, 211, 473, 832, 503, 843, 284, 669, 830, 164, 35, 533, 501, 335, 77, 255, 975, 975, 763, 369, 45, 430, 880, 142, 617, 363, 390, 431, 290, 846, 691, 268, 467, 178, 702, 310, 677, 371, 136, 467, 786, 880, 245, 992, 450, 628, 384, 45, 596, 4, 241, 137, 199, 963, 931, 310, 549, 374, 790]}, {"type": "u32", "zeros": 64}, 64], "expect": [null, [0, 585, 618, 1057, 1551, 2142, 2157, 2368, 2841, 3673, 4176, 5019, 5303, 5972, 6802, 6966, 7001, 7534, 8035, 8370, 8447, 8702, 9677, 10652, 11415, 11784, 11829, 12259, 13139, 13281, 13898, 14261, 14651, 15082, 15372, 16218, 16909, 17177, 17644, 17822, 18524, 18834, 19511, 19882, 20018, 20485, 21271, 22151, 22396, 23388, 23838, 24466, 24850, 24895, 25491, 25495, 25736, 25873, 26072, 27035, 27966, 28276, 28825, 29199], null]}

__global__ void scan_blelloch(const unsigned *in, unsigned *out, int n)
{
    extern __shared__ unsigned tree[];
    int t = threadIdx.x;
    tree[2 * t] = in[2 * t];
    tree[2 * t + 1] = in[2 * t + 1];
    int offset = 1;
    for (int d = n / 2; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        tree[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            unsigned v = tree[left];
            tree[left] = tree[right];
            tree[right] += v;
        }
    }
    __syncthreads();
    out[2 * t] = tree[2 * t];
    out[2 * t + 1] = tree[2 * t + 1];
}
