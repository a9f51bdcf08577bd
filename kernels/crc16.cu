// CRC-16-CCITT bit by bit in 16-bit arithmetic.
// qgpu: {"kernel": "crc16", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u8", "data": [49, 50, 51, 52, 53, 54, 55, 56, 57, 108, 97, 121, 101, 114, 115, 116, 111, 107, 101, 110, 115, 98, 102, 49, 54, 32, 120, 32]}, {"type": "u16", "zeros": 4}, 7], "expect": [null, [30488, 3458, 50098, 32341], null]}

__global__ void crc16(const unsigned char *messages, unsigned short *out, int length)
{
    unsigned short crc = 0xffff;
    for (int i = 0; i < length; i++) {
        crc ^= (unsigned short)(messages[threadIdx.x * length + i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (unsigned short)(crc << 1 ^ 0x1021) : (unsigned short)(crc << 1);
    }
    out[threadIdx.x] = crc;
}
