// Decodes numbers of seven bits a byte, the top bit saying that more follow.
// qgpu: {"kernel": "varint", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "u8", "data": [0, 127, 128, 1, 172, 2, 128, 128, 1, 255, 255, 255, 255, 15]}, {"type": "u8", "data": [0, 1, 2, 4, 6, 9]}, {"type": "u32", "zeros": 6}], "expect": [null, null, [0, 127, 128, 300, 16384, 4294967295]]}

__global__ void varint(const unsigned char *bytes, const unsigned char *start, unsigned *out)
{
    const unsigned char *p = bytes + start[threadIdx.x];
    unsigned value = 0;
    int shift = 0;
    unsigned char b;
    do {
        b = *p++;
        value |= (unsigned)(b & 127) << shift;
        shift += 7;
    } while (b & 128);
    out[threadIdx.x] = value;
}
