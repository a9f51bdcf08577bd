// The PCG generator: a 64-bit congruence whose upper bits choose how the rest is rotated.
// qgpu: {"kernel": "pcg32", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "u64", "data": [3461691193933538260, 16078361902807052714, 12092144748865638466, 12017085981365374092]}, {"type": "u32", "zeros": 12}, 3], "expect": [[8919956361744313085, 16412316438764345547, 16416434120150687811, 18230650493342606101], [604320999, 2585088377, 460193353, 2275212092, 1676607333, 235270225, 2295197599, 3877126968, 1481726082, 3681381770, 4228327275, 4074271431], null]}

__global__ void pcg32(unsigned long long *states, unsigned *out, int n)
{
    unsigned long long state = states[threadIdx.x];
    for (int i = 0; i < n; i++) {
        unsigned x = (unsigned)((state >> 18 ^ state) >> 27);
        unsigned turn = (unsigned)(state >> 59);
        out[n * threadIdx.x + i] = __funnelshift_r(x, x, turn);
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    }
    states[threadIdx.x] = state;
}
