// Integers to decimal text, twelve bytes for each, right-aligned.
// qgpu: {"kernel": "decimal", "grid": [1, 1, 1], "block": [6, 1, 1], "args": [{"type": "i32", "data": [0, -1, 42, 2147483647, -2147483648, -90210]}, {"type": "u8", "zeros": 72}], "expect": [null, [32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 48, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 45, 49, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 52, 50, 32, 32, 50, 49, 52, 55, 52, 56, 51, 54, 52, 55, 32, 45, 50, 49, 52, 55, 52, 56, 51, 54, 52, 56, 32, 32, 32, 32, 32, 32, 45, 57, 48, 50, 49, 48]]}

__global__ void decimal(const int *in, char *out)
{
    char *field = out + 12 * threadIdx.x;
    int v = in[threadIdx.x];
    unsigned rest = v < 0 ? 0u - (unsigned)v : v;
    int at = 11;
    do {
        field[at--] = '0' + rest % 10;
        rest /= 10;
    } while (rest != 0);
    if (v < 0)
        field[at--] = '-';
    while (at >= 0)
        field[at--] = ' ';
}
