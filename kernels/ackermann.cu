// Ackermann's function without recursion: the pending first arguments are on a stack in a local array.
// qgpu: {"kernel": "ackermann", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [0, 1, 2, 2]}, {"type": "i32", "data": [5, 6, 2, 3]}, {"type": "i32", "zeros": 4}], "expect": [null, null, [6, 8, 7, 9]]}

__global__ void ackermann(const int *m, const int *n, int *out)
{
    int pending[16];
    int top = 0, value = n[threadIdx.x];
    pending[0] = m[threadIdx.x];
    while (top >= 0) {
        int first = pending[top--];
        if (first == 0) {
            value++;
        } else if (value == 0) {
            pending[++top] = first - 1;
            value = 1;
        } else {
            pending[++top] = first - 1;
            pending[++top] = first;
            value--;
        }
    }
    out[threadIdx.x] = value;
}
