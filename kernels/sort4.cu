// Every thread sorts its own row of four with a network of min and max.
// qgpu: {"kernel": "sort4", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i32", "data": [4, 3, 2, 1, 1, 2, 3, 4, -5, 7, -5, 0, 2147483647, -2147483648, 0, -1]}], "expect": [[1, 2, 3, 4, 1, 2, 3, 4, -5, -5, 0, 7, -2147483648, -1, 0, 2147483647]]}

__global__ void sort4(int *data)
{
    int *row = data + 4 * threadIdx.x;
    int a = row[0], b = row[1], c = row[2], d = row[3];
    int low = min(a, b), high = max(a, b);
    int left = min(c, d), right = max(c, d);
    row[0] = min(low, left);
    row[3] = max(high, right);
    int one = max(low, left), two = min(high, right);
    row[1] = min(one, two);
    row[2] = max(one, two);
}
