// Motion search: the sum of absolute differences of eight pixels at every displacement, and the displacement of the least.
// qgpu: {"kernel": "motion", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u8", "data": [108, 161, 252, 99, 203, 213, 86, 99, 215, 117, 93, 237, 213, 196, 142, 193, 113, 179, 255, 16, 160, 122, 231, 208]}, {"type": "u8", "data": [246, 153, 238, 215, 83, 185, 113, 232]}, {"type": "u32", "zeros": 16}, {"type": "u32", "zeros": 1}], "expect": [null, null, [584, 595, 403, 540, 596, 508, 533, 807, 443, 547, 401, 455, 588, 543, 803, 294], [15]]}

__global__ void motion(const unsigned char *row, const unsigned char *block, unsigned *sums, unsigned *best)
{
    __shared__ unsigned least;
    unsigned t = threadIdx.x, sum = 0;
    if (t == 0)
        least = 0xffffffff;
    __syncthreads();
    for (int i = 0; i < 8; i++)
        sum = __usad(row[t + i], block[i], sum);
    sums[t] = sum;
    atomicMin(&least, sum << 8 | t);
    __syncthreads();
    if (t == 0)
        *best = least & 255;
}
