/** A line plot as SVG: axes from zero, round ticks, one colour a series. */
import type { Plot, Series } from '../support/measure.js';

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 64;
const RIGHT = 24;
const TOP = 64;
const BOTTOM = 56;
const COLOURS = ['#1b6ca8', '#c2571a', '#3a7d44', '#7b3f98'];

export function svg(plot: Plot): string {
  const points = plot.series.flatMap((series) => series.points);
  const [xTicks, yTicks] = [
    ticks(Math.max(0, ...points.map((p) => p.x))),
    ticks(Math.max(0, ...points.map((p) => p.y))),
  ];
  const x = scale(xTicks, LEFT, WIDTH - RIGHT);
  const y = scale(yTicks, HEIGHT - BOTTOM, TOP);
  const line = (series: Series, i: number): string => {
    const colour = COLOURS[i % COLOURS.length];
    const path = series.points.map((p) => `${x(p.x)},${y(p.y)}`).join(' ');
    const dots = series.points.map((p) => `<circle cx="${x(p.x)}" cy="${y(p.y)}" r="2.5" fill="${colour}"/>`);
    return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join('')}`;
  };
  const legend = plot.series.map((series, i) => {
    const at = LEFT + i * 180;
    const box = `<rect x="${at}" y="40" width="12" height="12" fill="${COLOURS[i % COLOURS.length]}"/>`;
    return `${box}<text x="${at + 18}" y="50">${escaped(series.name)}</text>`;
  });
  const grid = [
    ...yTicks.map(
      (tick) =>
        `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(tick)}" y2="${y(tick)}" stroke="#ddd"/>` +
        `<text x="${LEFT - 8}" y="${y(tick) + 4}" text-anchor="end">${tick}</text>`,
    ),
    ...xTicks.map((tick) => `<text x="${x(tick)}" y="${HEIGHT - BOTTOM + 20}" text-anchor="middle">${tick}</text>`),
  ];
  const middle = (LEFT + WIDTH - RIGHT) / 2;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${escaped(plot.title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${LEFT}" y="24" font-size="16">${escaped(plot.title)}</text>`,
    ...legend,
    ...grid,
    ...plot.series.map(line),
    `<text x="${middle}" y="${HEIGHT - 12}" text-anchor="middle">${escaped(plot.x)}</text>`,
    `<text transform="translate(16 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">${escaped(plot.y)}</text>`,
    '</svg>',
    '',
  ].join('\n');
}

/** From 0 to at least `max`, in four to eight steps of 1, 2 or 5 times a power of ten. */
function ticks(max: number): number[] {
  const rough = (max || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.ceil((max || 1) / step) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

function scale(range: readonly number[], from: number, to: number): (value: number) => number {
  const top = range.at(-1) ?? 1;
  return (value) => Number((from + ((to - from) * value) / top).toFixed(1));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
