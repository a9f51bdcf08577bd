// Greatest common divisor by subtraction, for positive numbers.
// qgpu: {"kernel": "gcd", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [12, 18, 17, 100, 270, 1, 64, 81]}, {"type": "u32", "data": [18, 12, 5, 75, 192, 9, 48, 27]}, {"type": "u32", "zeros": 8}], "expect": [[12, 18, 17, 100, 270, 1, 64, 81], [18, 12, 5, 75, 192, 9, 48, 27], [6, 6, 1, 25, 6, 1, 16, 27]]}

__global__ void gcd(const unsigned *a, const unsigned *b, unsigned *out)
{
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i];
    while (x != y) {
        if (x > y)
            x -= y;
        else
            y -= x;
    }
    out[i] = x;
}
