// A small stack machine: every thread interprets a program of its own, an opcode a turn, through a switch.
// qgpu: {"kernel": "bytecode", "grid": [1, 1, 1], "block": [4, 1, 1], "args": [{"type": "i8", "data": [0, 5, 0, 7, 2, 0, 3, 4, 7, 7, 7, 7, 7, 7, 7, 7, 0, 1, 0, 6, 3, 8, 2, 3, 0, 1, 4, 1, 6, 4, 9, 7, 0, 100, 0, 93, 4, 1, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 10, 3, 8, 5, 3, 0, 1, 4, 1, 6, 4, 9, 7]}, {"type": "i32", "zeros": 4}], "expect": [null, [32, 720, 49, 55]]}

enum { PUSH, DUP, MUL, SWAP, SUB, ADD, JUMP_IF, HALT, OVER, DROP };

__global__ void bytecode(const signed char *programs, int *out)
{
    const signed char *code = programs + 16 * threadIdx.x;
    int stack[8];
    int pc = 0, top = -1, t;
    bool running = true;
    while (running) {
        switch (code[pc++]) {
        case PUSH:
            stack[++top] = code[pc++];
            break;
        case DUP:
            t = stack[top];
            stack[++top] = t;
            break;
        case MUL:
            top--;
            stack[top] *= stack[top + 1];
            break;
        case SWAP:
            t = stack[top];
            stack[top] = stack[top - 1];
            stack[top - 1] = t;
            break;
        case SUB:
            top--;
            stack[top] -= stack[top + 1];
            break;
        case ADD:
            top--;
            stack[top] += stack[top + 1];
            break;
        case JUMP_IF:
            t = code[pc++];
            if (stack[top--] != 0)
                pc = t;
            break;
        case OVER:
            t = stack[top - 1];
            stack[++top] = t;
            break;
        case DROP:
            top--;
            break;
        default:
            running = false;
        }
    }
    out[threadIdx.x] = stack[top];
}
