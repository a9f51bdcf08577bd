// Binary to packed decimal by double dabble: a digit of five or more gets three before each shift.
// qgpu: {"kernel": "double_dabble", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u16", "data": [0, 9, 10, 255, 999, 4096, 65535, 12345]}, {"type": "u32", "zeros": 8}], "expect": [null, [0, 9, 16, 597, 2457, 16534, 415029, 74565]]}

__global__ void double_dabble(const unsigned short *in, unsigned *bcd)
{
    unsigned digits = 0, v = in[threadIdx.x];
    for (int bit = 15; bit >= 0; bit--) {
        unsigned large = ((digits & 0x77777) + 0x33333 | digits) & 0x88888;
        digits += (large >> 2) | (large >> 3);
        digits = digits << 1 | (v >> bit & 1);
    }
    bcd[threadIdx.x] = digits;
}
