// Draws a chart in every element with data-series and redraws it when its numbers change. The legend shows the
// values under the pointer.
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ago = (s) => s === 0 ? "now" : s > -180 ? `${-s} s ago` : `${Math.round(-s / 6) / 10} min ago`;
  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  const amount = (value, unit) => {
    if (value === null || value === undefined) return "–";
    if (unit === "usd") return `$${value.toFixed(2)}`;
    if (unit === "ratio") return `${short(100 * value)} %`;
    return `${short(value)} ${unit === "percent" ? "%" : unit}`;
  };
  const along = {
    time: { name: "time", says: (s) => new Date(1000 * s).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) },
    ago: { name: "when", says: ago },
    hour: { name: "hour", says: (hour) => `${hour}:00` },
    percent: { name: "stated", says: (part) => `${short(part)} %` },
    order: { name: "number", says: (at) => `${at + 1}` },
    calls: { name: "call", says: (at) => `${at + 1}` },
  };
  const height = (figure) => figure.dataset.x === "calls" ? 70 : 160;
  const drawn = new WeakMap();
  const draw = (figure) => {
    const said = figure.dataset.series;
    if (drawn.get(figure)?.said === said && figure.firstElementChild) return;
    drawn.get(figure)?.plot.destroy();
    const { x, lines } = JSON.parse(said);
    if (!x.length) return;
    const { x: kind, unit } = figure.dataset;
    const { name, says } = along[kind];
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const across = kind === "calls" ? { show: false } : axis;
    const below = kind === "order" || kind === "calls" ? { show: false } : axis;
    const plot = new uPlot({
      width: figure.clientWidth || 300,
      height: height(figure),
      padding: [null, null, below.show === false ? 10 : null, null],
      legend: { live: kind !== "calls", markers: { fill: (u, n) => u.series[n].stroke(u, n) } },
      cursor: { show: kind !== "calls", y: false, drag: { x: false, y: false } },
      scales: {
        x: { time: kind === "time", range: kind === "calls" ? [-1, x.length] : undefined },
        y: { range: (_u, low, high) => [Math.min(0, low), kind === "calls" ? 1 : high * 1.05 || 1] },
      },
      axes: [
        kind === "time" ? below : { ...below, space: 90, values: (_u, at) => at.map(says) },
        { ...across, size: 84, values: (_u, at) => at.map((value) => amount(value, unit)) },
      ],
      series: [{ label: name, value: (_u, at) => at === null ? "–" : says(at) }, ...lines.map((line) => ({
        label: line.name,
        value: (_u, value) => amount(value, unit),
        stroke: colour(line.colour || "--link"),
        fill: kind === "calls" ? colour(line.colour) : undefined,
        dash: line.dashed ? [4, 4] : undefined,
        width: kind === "calls" ? 0 : 2,
        paths: kind === "calls" ? uPlot.paths.bars({ size: [0.8, 24] }) : undefined,
        points: { show: kind !== "calls" && x.length < 2 },
      }))],
    }, [x, ...lines.map((line) => line.y)], figure);
    drawn.set(figure, { said, plot });
  };
  const all = () => document.querySelectorAll("[data-series]").forEach(draw);
  for (const name of ["DOMContentLoaded", "htmx:afterSwap", "htmx:load"]) document.addEventListener(name, all);
  window.addEventListener("resize", () => {
    document.querySelectorAll("[data-series]").forEach((figure) => {
      drawn.get(figure)?.plot.setSize({ width: figure.clientWidth, height: height(figure) });
    });
  });
})();
