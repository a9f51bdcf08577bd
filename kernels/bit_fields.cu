// Fields of a date stamp of 32 bits: year, month and day change places; a signed field is taken out with its sign.
// qgpu: {"kernel": "bit_fields", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u32", "data": [2211641671, 4039091535, 391866289, 3405275247, 1379218798, 3176081452, 4043022000, 1360610827, 551694991, 1230224237, 934332914, 496511595, 3773883139, 3010867540, 407656474, 1650205723]}, {"type": "u32", "zeros": 16}, {"type": "i32", "zeros": 16}], "expect": [null, [502140, 1028050, 1170867, 998448, 965274, 792468, 1072591, 724131, 999705, 899549, 1243236, 736277, 231537, 1354520, 1705516, 1773074], [489, 95, 941, -644, 282, -345, 125, 140, 113, -855, 984, -308, 120, 443, -986, 302]]}

__global__ void bit_fields(const unsigned *in, unsigned *moved, int *field)
{
    unsigned x = in[threadIdx.x];
    unsigned day = x & 31, month = x >> 5 & 15, year = x >> 9 & 0xfff;
    moved[threadIdx.x] = day << 16 | month << 12 | year;
    field[threadIdx.x] = (int)(x << 4) >> 21;
}
