// Particles as structures of ints and shorts: they move, and turn round at the walls of a box.
// qgpu: {"kernel": "particles", "grid": [1, 1, 1], "block": [12, 1, 1], "args": [{"type": "i32", "data": [982, 20, -65539, 400, 338, -262153, 826, 837, -196617, 107, 916, -327685, 78, 671, 131073, 660, 62, 655357, 263, 400, -262143, 643, 306, -524284, 477, 456, -131064, 264, 984, 655356, 40, 102, -327688, 847, 167, 589823]}, 12, 1000, 5], "expect": [[682, 180, 196605, 500, 162, 327689, 74, 437, -262135, 393, 316, -393211, 178, 871, 131073, 360, 962, 655357, 363, 0, -262143, 955, 494, 589820, 721, 256, -65544, 136, 114, -589820, 760, 498, 393224, 747, 967, 589823], null, null, null]}

struct Particle {
    int x, y;
    short vx, vy;
};

__device__ void bounce(int &position, short &speed, int size)
{
    if (position < 0) {
        position = -position;
        speed = -speed;
    } else if (position >= size) {
        position = 2 * (size - 1) - position;
        speed = -speed;
    }
}

__global__ void particles(Particle *all, int n, int size, int steps)
{
    if (threadIdx.x >= n)
        return;
    Particle p = all[threadIdx.x];
    for (int s = 0; s < steps; s++) {
        p.x += 20 * p.vx;
        p.y += 20 * p.vy;
        bounce(p.x, p.vx, size);
        bounce(p.y, p.vy, size);
    }
    all[threadIdx.x] = p;
}
