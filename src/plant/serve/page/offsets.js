// The service counts code points, browsers count UTF-16 units: they differ after the first emoji.

export function offsets(text) {
  const wide = []; // code points that take two units
  let points = 0;
  for (let unit = 0; unit < text.length; unit++, points++) {
    const first = text.charCodeAt(unit);
    const pair = first >= 0xd800 && first < 0xdc00 && unit + 1 < text.length;
    if (pair && (text.charCodeAt(unit + 1) & 0xfc00) === 0xdc00) {
      wide.push(points);
      unit++;
    }
  }
  if (!wide.length) return { toUnit: (point) => point, toPoint: (unit) => unit };
  const units = wide.map((point, place) => point + place); // where those stand, in units
  return {
    toUnit: (point) => point + before(wide, point),
    toPoint: (unit) => unit - before(units, unit),
  };
}

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
