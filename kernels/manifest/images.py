"""Grids and images: stencils, filters, rasters."""

from .registry import Rules, flat, rows

rules = Rules()


@rules
def stencil_halo(data, out, n):
    return {1: [sum(data[max(0, i - 2):i + 3]) for i in range(n)]}


@rules
def heat(plate, steps):
    grid = rows(plate, 8)
    for _ in range(steps):
        old = [row[:] for row in grid]
        for y in range(1, 7):
            for x in range(1, 7):
                around = old[y - 1][x] + old[y + 1][x] + old[y][x - 1] + old[y][x + 1]
                grid[y][x] += (around - 4 * old[y][x]) // 8
    return {0: flat(grid)}


@rules
def life(data, out):
    alive = {(x, y) for y, row in enumerate(rows(data, 10)) for x, v in enumerate(row) if v}
    def neighbours(x, y):
        return len(alive & {((x + dx) % 10, (y + dy) % 8) for dx in (-1, 0, 1) for dy in (-1, 0, 1)} - {(x, y)})
    return {1: [int(neighbours(x, y) in ((2, 3) if (x, y) in alive else (3,))) for y in range(8) for x in range(10)]}


@rules
def convolution(data, out, width, height):
    image = rows(data, width)
    padded = [[row[0], *row, row[-1]] for row in (image[0], *image, image[-1])]
    across = [[r[x] + 2 * r[x + 1] + r[x + 2] for x in range(width)] for r in padded]  # the kernel is a product of two
    down = [[across[y][x] + 2 * across[y + 1][x] + across[y + 2][x] for x in range(width)] for y in range(height)]
    return {1: [(v + 8) // 16 for v in flat(down)]}


@rules
def median(data, out, width):
    image = rows(data, width)
    return {1: [sorted(flat(row[x:x + 3] for row in image[y:y + 3]))[4] for y in range(4) for x in range(6)]}


@rules
def summed_area(image):
    grid = rows(image, 8)
    return {0: [sum(flat(row[:x + 1] for row in grid[:y + 1])) for y in range(8) for x in range(8)]}


@rules
def bresenham(lines, bitmap):
    bitmap = list(bitmap)
    for x0, y0, x1, y1 in rows(lines, 4):
        dx, dy, error = x1 - x0, y1 - y0, abs(x1 - x0) - abs(y1 - y0)
        x, y = x0, y0
        bitmap[y] |= 1 << x
        while (x, y) != (x1, y1):
            across, down = 2 * error >= -abs(dy), 2 * error <= abs(dx)
            if across:
                x, error = x + (1 if dx > 0 else -1), error - abs(dy)
            if down:
                y, error = y + (1 if dy > 0 else -1), error + abs(dx)
            bitmap[y] |= 1 << x
    return {1: bitmap}


@rules
def mandelbrot(out, width, most):
    def escape(cx, cy):
        x = y = 0
        for n in range(most):
            if x * x // 4096 + y * y // 4096 > 4 * 4096:
                return n
            x, y = x * x // 4096 - y * y // 4096 + cx, x * y // 2048 + cy
        return most
    return {0: [escape(-8192 + 1024 * column, -4096 + 2048 * row) for row in range(5) for column in range(width)]}


@rules
def dither(data, out):
    def bayer(x, y):  # by its definition: the bits of x ^ y and y, interleaved and reversed
        a, b = (x ^ y) & 3, y & 3
        return (a & 1) * 8 + (b & 1) * 4 + (a >> 1) * 2 + (b >> 1)
    return {1: [sum(int(v >= 16 * bayer(x, y) + 8) << x for x, v in enumerate(row)) for y, row in enumerate(rows(data, 32))]}


@rules
def blend(base, light, out, alpha):
    return {2: [min(255, a + b * alpha // 256) for a, b in zip(base, light)]}


@rules
def rgb565(pixels, packed, grey):
    pixels = rows(pixels, 4)
    return {1: [r // 8 * 2048 + g // 4 * 32 + b // 8 for r, g, b, _ in pixels],
            2: [(77 * r + 150 * g + 29 * b + 128) // 256 for r, g, b, _ in pixels]}


@rules
def motion(row, block, sums, best):
    differences = [sum(abs(a - b) for a, b in zip(row[t:], block)) for t in range(16)]
    return {2: differences, 3: [differences.index(min(differences))]}
