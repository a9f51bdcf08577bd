// The towers of Hanoi with five discs: every thread works out one move from its number alone.
// qgpu: {"kernel": "hanoi", "grid": [1, 1, 1], "block": [31, 1, 1], "args": [{"type": "u8", "zeros": 62}], "expect": [[0, 2, 0, 1, 2, 1, 0, 2, 1, 0, 1, 2, 0, 2, 0, 1, 2, 1, 2, 0, 1, 0, 2, 1, 0, 2, 0, 1, 2, 1, 0, 2, 1, 0, 1, 2, 0, 2, 1, 0, 2, 1, 2, 0, 1, 0, 1, 2, 0, 2, 0, 1, 2, 1, 0, 2, 1, 0, 1, 2, 0, 2]]}

__global__ void hanoi(uchar2 *moves)
{
    unsigned m = threadIdx.x + 1;
    moves[threadIdx.x] = make_uchar2((m & (m - 1)) % 3, ((m | (m - 1)) + 1) % 3);
}
