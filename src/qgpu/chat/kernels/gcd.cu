// Greatest common divisors by halving and subtracting (Stein), element by element; the gcd with 0 is the other number.

__global__ void gcd(const int *a, const int *b, int *out, int *over, int n)
{
    int i = threadIdx.x;
    if (i < n) {
        int x = a[i], y = b[i], twos = 0;
        unsigned u = x < 0 ? 0u - x : x, v = y < 0 ? 0u - y : y, r = u | v;
        if (u != 0 && v != 0) {
            while (((u | v) & 1) == 0) {
                u >>= 1;
                v >>= 1;
                twos++;
            }
            while (v) {
                while ((v & 1) == 0)
                    v >>= 1;
                while ((u & 1) == 0)
                    u >>= 1;
                unsigned less = min(u, v);
                v = max(u, v) - less;
                u = less;
            }
            r = u << twos;
        }
        out[i] = (int)r;
        over[i] = r >> 31;
    }
}
