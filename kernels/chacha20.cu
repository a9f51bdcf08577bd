// One ChaCha20 block on four lanes: a lane has a column of the state, and shuffles turn the diagonals into columns.
// qgpu: {"kernel": "chacha20", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u32", "data": [1634760805, 857760878, 2036477234, 1797285236, 50462976, 117835012, 185207048, 252579084, 319951120, 387323156, 454695192, 522067228, 1, 150994944, 1241513984, 0]}, {"type": "u32", "zeros": 16}], "expect": [null, [3840405776, 358169553, 534581072, 3295748259, 3354710471, 57196595, 2594841092, 1315755203, 1180992210, 162176775, 98026004, 2718075865, 3516666549, 3108902622, 3900952779, 1312575650]]}

__device__ __forceinline__ unsigned rotate(unsigned x, int n)
{
    return x << n | x >> (32 - n);
}

__global__ void chacha20(const unsigned *state, unsigned *out)
{
    int lane = threadIdx.x;
    unsigned a = state[lane], b = state[4 + lane], c = state[8 + lane], d = state[12 + lane];
    for (int round = 0; round < 20; round++) {
        a += b;
        d = rotate(d ^ a, 16);
        c += d;
        b = rotate(b ^ c, 12);
        a += b;
        d = rotate(d ^ a, 8);
        c += d;
        b = rotate(b ^ c, 7);
        int turn = round & 1 ? -1 : 1;
        b = __shfl_sync(0xf, b, lane + turn, 4);
        c = __shfl_sync(0xf, c, lane + 2, 4);
        d = __shfl_sync(0xf, d, lane - turn, 4);
    }
    out[lane] = a + state[lane];
    out[4 + lane] = b + state[4 + lane];
    out[8 + lane] = c + state[8 + lane];
    out[12 + lane] = d + state[12 + lane];
}
