// Bitonic sort of 16 64-bit words, key above value, without memory: a butterfly of shuffles keeps the smaller or larger one.
// qgpu: {"kernel": "sort_pairs", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u64", "data": [38654705664, 8589934593, 4294967298, 12884901891, 30064771076, 17179869189, 21474836486, 8589934599, 34359738376, 8589934601, 8589934602, 11, 17179869196, 8589934605, 4294967310, 15]}], "expect": [[11, 15, 4294967298, 4294967310, 8589934593, 8589934599, 8589934601, 8589934602, 8589934605, 12884901891, 17179869189, 17179869196, 21474836486, 30064771076, 34359738376, 38654705664]]}

__global__ void sort_pairs(unsigned long long *data)
{
    int lane = threadIdx.x;
    unsigned long long own = data[lane];
    for (int size = 2; size <= 16; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            unsigned long long other = __shfl_xor_sync(0xffff, own, stride, 16);
            bool small = ((lane & stride) == 0) == ((lane & size) == 0);
            own = small ? min(own, other) : max(own, other);
        }
    }
    data[lane] = own;
}
