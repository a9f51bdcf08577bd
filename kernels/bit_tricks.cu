// Bit counts, leading zeros, first one, reversal, bytes swapped, and the two halves exchanged.
// qgpu: {"kernel": "bit_tricks", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [0, 1, 2147483648, 4294967295, 240, 3735928559, 12, 305419896]}, {"type": "i32", "zeros": 8}, {"type": "i32", "zeros": 8}, {"type": "i32", "zeros": 8}, {"type": "u32", "zeros": 8}, {"type": "u32", "zeros": 8}, {"type": "u32", "zeros": 8}], "expect": [null, [0, 1, 1, 32, 4, 24, 2, 13], [32, 31, 0, 0, 24, 0, 28, 3], [0, 1, 32, 1, 5, 1, 3, 4], [0, 2147483648, 1, 4294967295, 251658240, 4152210811, 805306368, 510274632], [0, 16777216, 128, 4294967295, 4026531840, 4022250974, 201326592, 2018915346], [0, 65536, 32768, 4294967295, 15728640, 3203391149, 786432, 1450709556]]}

__global__ void bit_tricks(const unsigned *in, int *ones, int *zeros, int *first, unsigned *reversed,
                           unsigned *swapped, unsigned *halves)
{
    int i = threadIdx.x;
    unsigned x = in[i];
    ones[i] = __popc(x);
    zeros[i] = __clz(x);
    first[i] = __ffs(x);
    reversed[i] = __brev(x);
    swapped[i] = __byte_perm(x, 0, 0x0123);
    halves[i] = __funnelshift_l(x, x, 16);
}
