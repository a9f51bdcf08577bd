// A linear congruential generator that each thread enters at another place: the step is squared as often as needed.
// qgpu: {"kernel": "lcg_jump", "grid": [1, 1, 1], "block": [16, 1, 1], "args": [{"type": "u32", "zeros": 16}, 12345], "expect": [[12345, 350778849, 2407586953, 1541735473, 3436481753, 3191019137, 3347595561, 2122296529, 3379100025, 1102563105, 2793649609, 1594385777, 220558873, 803112897, 3587914345, 1608986129], null]}

__global__ void lcg_jump(unsigned *out, unsigned seed)
{
    unsigned multiplier = 1664525u, increment = 1013904223u;
    unsigned a = 1, c = 0;
    for (unsigned jump = 1000 * threadIdx.x; jump > 0; jump >>= 1) {
        if (jump & 1) {
            a *= multiplier;
            c = c * multiplier + increment;
        }
        increment *= multiplier + 1;
        multiplier *= multiplier;
    }
    out[threadIdx.x] = a * seed + c;
}
