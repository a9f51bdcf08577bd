// Products modulo the prime 4294967291 in Montgomery's form, without any division.
// qgpu: {"kernel": "montgomery", "grid": [1, 1, 1], "block": [8, 1, 1], "args": [{"type": "u32", "data": [2172997514, 3606151476, 1946843032, 1452076075, 2396466445, 2282909360, 1650216124, 2056961322]}, {"type": "u32", "data": [621570035, 3304528125, 2104092984, 4223774601, 2169388637, 1254681156, 4161174436, 3541482818]}, {"type": "u32", "zeros": 8}], "expect": [null, null, [2663104172, 3302451973, 1253644616, 2245725121, 2965959177, 508748119, 618857599, 2997021723]]}

#define P 4294967291u

__device__ unsigned reduce(unsigned long long t)
{
    unsigned q = (unsigned)t * 858993459u;  // 1 / P modulo 2^32
    unsigned high = __umulhi(q, P);
    unsigned top = (unsigned)(t >> 32);
    return top >= high ? top - high : top - high + P;
}

__global__ void montgomery(const unsigned *a, const unsigned *b, unsigned *out)
{
    unsigned square = 25;  // 2^64 modulo P
    unsigned x = reduce((unsigned long long)a[threadIdx.x] * square);
    unsigned y = reduce((unsigned long long)b[threadIdx.x] * square);
    out[threadIdx.x] = reduce(reduce((unsigned long long)x * y));
}
