// Modular exponentiation by squaring, for moduli below 65536.
// qgpu: {"kernel": "modpow", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u32", "data": [3, 65534, 12345, 2]}, {"type": "u32", "data": [1000, 65535, 77, 0]}, {"type": "u32", "data": [65521, 65521, 40000, 7]}, {"type": "u32", "zeros": 4}], "expect": [null, null, null, [62935, 19808, 25625, 1]]}

__global__ void modpow(const unsigned *base, const unsigned *exponent, const unsigned *modulus, unsigned *out)
{
    int i = threadIdx.x;
    unsigned m = modulus[i], b = base[i] % m, result = 1 % m;
    for (unsigned e = exponent[i]; e != 0; e >>= 1) {
        if (e & 1)
            result = result * b % m;
        b = b * b % m;
    }
    out[i] = result;
}
