// Unpacks float32 arrays from the bytes of the page; packing.py packs them.

export class Tables {
  constructor(bytes) {
    this.bytes = bytes;
  }

  // Returns an array row by row. Stored are the differences of the bit patterns of consecutive rows,
  // column by column, in byte planes.
  read({ offset, shape }) {
    const rows = shape[0];
    const columns = shape.slice(1).reduce((product, length) => product * length, 1);
    const count = rows * columns;
    const bits = new Uint32Array(count);
    const { bytes } = this;
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let row = 0; row < rows; row++) {
        const at = offset + column * rows + row;
        const step = bytes[at] | (bytes[at + count] << 8) | (bytes[at + 2 * count] << 16)
          | (bytes[at + 3 * count] << 24);
        sum = (sum + step) >>> 0;
        bits[row * columns + column] = sum;
      }
    }
    return new Float32Array(bits.buffer);
  }
}

// Returns the frames around a time and the fraction between them.
export function bracket(times, time) {
  let low = 0;
  let high = times.length - 1;
  if (high < 1 || time <= times[0]) return { first: 0, second: 0, share: 0 };
  if (time >= times[high]) return { first: high, second: high, share: 0 };
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle;
    else high = middle;
  }
  return { first: low, second: high, share: (time - times[low]) / (times[high] - times[low]) };
}
