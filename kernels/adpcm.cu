// IMA ADPCM: each thread decodes sixteen 4-bit codes to samples, with a table of steps that grow and shrink.
// qgpu: {"kernel": "adpcm", "grid": [1, 1, 1], "block": [2, 1, 1], "args": [{"type": "u8", "data": [126, 217, 247, 158, 70, 217, 63, 128, 151, 17, 143, 160, 97, 95, 99, 78]}, {"type": "i16", "zeros": 32}], "expect": [null, [-81, 84, 14, -223, 250, -770, -1946, -2217, -1148, -334, -605, -1509, -2866, -2233, -2151, -2225, 93, 54, 90, 123, -27, -48, -29, -117, -69, 122, -269, 348, 923, 1894, 718, 1532]]}

__constant__ short step_size[49] = {
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73,
    80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724,
};
__constant__ signed char adjust[8] = {-1, -1, -1, -1, 2, 4, 6, 8};

__global__ void adpcm(const unsigned char *codes, short *samples)
{
    int value = 0, index = 20;
    for (int i = 0; i < 16; i++) {
        int code = codes[8 * threadIdx.x + i / 2] >> 4 * (i & 1) & 15;
        int step = step_size[index];
        int difference = step >> 3;
        if (code & 4)
            difference += step;
        if (code & 2)
            difference += step >> 1;
        if (code & 1)
            difference += step >> 2;
        value += code & 8 ? -difference : difference;
        value = min(max(value, -32768), 32767);
        index = min(max(index + adjust[code & 7], 0), 48);
        samples[16 * threadIdx.x + i] = value;
    }
}
