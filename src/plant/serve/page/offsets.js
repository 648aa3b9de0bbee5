// The service counts code points, browsers count UTF-16 units: they differ after the first emoji.

export function offsets(text) {
  const units = [...text.matchAll(/[\ud800-\udbff][\udc00-\udfff]/g)].map((pair) => pair.index); // of what takes two
  const points = units.map((unit, place) => unit - place);
  return { toUnit: (point) => point + before(points, point), toPoint: (unit) => unit - before(units, unit) };
}

// A span counted the other way.
export const moved = ({ start, end, ...rest }, to) => ({ ...rest, start: to(start), end: to(end) });

// How many of some rising numbers are less than a value.
export function before(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
