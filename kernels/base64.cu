// Base64: a thread turns three bytes into four letters, the last one pads with =.
// qgpu: {"kernel": "base64", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u8", "data": [71, 97, 116, 101, 100, 32, 68, 101, 108, 116, 97, 78, 101, 116, 32, 108, 97, 121, 101, 114, 115, 33]}, {"type": "u8", "zeros": 32}, 22], "expect": [null, [82, 50, 70, 48, 90, 87, 81, 103, 82, 71, 86, 115, 100, 71, 70, 79, 90, 88, 81, 103, 98, 71, 70, 53, 90, 88, 74, 122, 73, 81, 61, 61], null]}

__constant__ char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

__global__ void base64(const unsigned char *in, char *out, int n)
{
    int i = 3 * threadIdx.x;
    if (i >= n)
        return;
    unsigned bits = in[i] << 16;
    if (i + 1 < n)
        bits |= in[i + 1] << 8;
    if (i + 2 < n)
        bits |= in[i + 2];
    char *four = out + 4 * threadIdx.x;
    four[0] = letters[bits >> 18];
    four[1] = letters[bits >> 12 & 63];
    four[2] = i + 1 < n ? letters[bits >> 6 & 63] : '=';
    four[3] = i + 2 < n ? letters[bits & 63] : '=';
}
