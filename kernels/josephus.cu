// Who survives when every k-th of n in a circle is counted out.
// qgpu: {"kernel": "josephus", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [1, 2, 5, 7, 10, 12, 14, 41]}, {"type": "u32", "data": [3, 1, 2, 3, 3, 5, 2, 3]}, {"type": "u32", "zeros": 8}], "expect": [null, null, [0, 1, 2, 3, 3, 0, 12, 30]]}

__global__ void josephus(const unsigned *n, const unsigned *k, unsigned *survivor)
{
    int i = threadIdx.x;
    unsigned place = 0;
    for (unsigned size = 2; size <= n[i]; size++) {
        place += k[i] % size;
        if (place >= size)
            place -= size;
    }
    survivor[i] = place;
}
