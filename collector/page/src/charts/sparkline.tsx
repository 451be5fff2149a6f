/** A small curve without axes, for a row of a table. */

/** Smallest span of the scale, as a share of the largest value: the noise of a steady pace stays a flat line. */
const LEAST_SPAN = 0.5;

/** Values from left to right; null leaves a gap. */
export function Sparkline({ values, label }: { values: readonly (number | null)[]; label: string }) {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) return <span class="quiet">unknown</span>;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const span = Math.max(most - least, most * LEAST_SPAN);
  const low = (least + most - span) / 2;
  const x = (index: number): number => (index / (values.length - 1)) * 96 + 2;
  const y = (value: number): number => 20 - ((value - low) / (span || 1)) * 16;
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) pen = "M";
    else {
      path += `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return (
    <svg class="sparkline" viewBox="0 0 100 24" role="img" aria-label={label}>
      <path d={path} />
    </svg>
  );
}
